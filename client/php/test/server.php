<?php

/**
 * A program: servers that give scripted answers, in the order of the requests and whichever of them is asked; the last answer is
 * repeated. Its argument is JSON: nodes (how many), answers, and target (base URL of a real node). It prints its ports. What
 * it has seen is the answer to GET at the first one, which gives no other.
 *
 * An answer is {status, body}, perhaps with chunked; "drop": the connection ends after the request was read; "pass": the
 * target's; "lost": the target has counted, and the connection ends; "hang": it has counted, and no answer comes; "last": its
 * answer, and the connection ends without a word.
 */

declare(strict_types=1);

['nodes' => $nodes, 'answers' => $answers, 'target' => $target] = json_decode($argv[1], true);
$listeners = array_map(fn () => stream_socket_server('tcp://127.0.0.1:0'), range(0, $nodes));
$ports = array_map(fn ($listener) => (int) substr(strrchr(stream_socket_get_name($listener, false), ':'), 1), $listeners);
echo json_encode($ports), "\n";

$open = $buffers = $seen = [];
$connections = 0;
while (true) {
    $ready = [...$listeners, ...array_values($open)];
    $none = [];
    stream_select($ready, $none, $none, null);
    foreach ($ready as $stream) {
        if (($at = array_search($stream, $listeners, true)) !== false) {
            $connection = stream_socket_accept($stream);
            $open[(int) $connection] = $connection;
            $buffers[(int) $connection] = '';
            $connections += $at > 0 ? 1 : 0;
            continue;
        }
        $read = fread($stream, 65536);
        $buffers[(int) $stream] .= $read;
        if ($read === '' || $read === false || !served($stream, $buffers[(int) $stream])) {
            unset($open[(int) $stream], $buffers[(int) $stream]);
            fclose($stream);
        }
    }
}

/** Answers the request in the buffer once it is complete. False: the connection ends. */
function served($stream, string &$buffer): bool
{
    global $answers, $connections, $seen;
    [$head, $body] = explode("\r\n\r\n", $buffer, 2) + ['', null];
    preg_match_all('/^([^:\r\n]+): ?([^\r\n]*)/m', $head, $found);
    $headers = array_combine(array_map('strtolower', $found[1]), $found[2]);
    if ($body === null || strlen($body) < (int) ($headers['content-length'] ?? 0)) {
        return true; // more is to come
    }
    $buffer = '';
    if (str_starts_with($head, 'GET /seen ')) {
        say($stream, 200, json_encode(['connections' => $connections, 'requests' => $seen]), false);
        return true;
    }
    $answer = $answers[min(count($seen), count($answers) - 1)];
    $seen[] = [$headers, json_decode($body, true)];
    if (is_array($answer)) {
        $status = $answer['status'];
        $text = is_string($answer['body']) ? $answer['body'] : json_encode($answer['body']);
    } elseif ($answer !== 'drop') {
        [$status, $text] = passed(explode(' ', $head)[1], $body);
    }
    if (in_array($answer, ['drop', 'lost', 'hang'], true)) {
        return $answer === 'hang';
    }
    say($stream, $status, $text, $answer['chunked'] ?? false);
    return $answer !== 'last';
}

/** Asks the target. */
function passed(string $path, string $body): array
{
    global $target;
    $options = ['method' => 'POST', 'header' => 'Content-Type: application/json', 'content' => $body, 'ignore_errors' => true];
    $text = file_get_contents($target . $path, false, stream_context_create(['http' => $options]));
    return [(int) explode(' ', $http_response_header[0])[1], $text];
}

function say($stream, int $status, string $text, bool $chunked): void
{
    if ($chunked) {
        $chunks = array_map(fn (string $part) => dechex(strlen($part)) . ";x=y\r\n$part\r\n", str_split($text, 7));
        fwrite($stream, "HTTP/1.1 103 X\r\nLink: x\r\n\r\nHTTP/1.1 $status X\r\nTransfer-Encoding: chunked\r\n\r\n"
            . implode('', $chunks) . "0\r\nTrailer: x\r\n\r\n");
        return;
    }
    fwrite($stream, "HTTP/1.1 $status X\r\nContent-Length: " . strlen($text) . "\r\n\r\n$text");
}
