<?php

/** What the tests share: a real node, servers that fail in one way each, and the few words of a test. */

declare(strict_types=1);

require __DIR__ . '/../Stint.php';

use Stint\Stint;
use Stint\StintError;

const ROOT = __DIR__ . '/../../..';
const POLICIES = ROOT . '/client/js/test/policies.yaml';

/** A program of the tests, which ends with them. Its output goes to a file, which never fills up. */
class Program
{
    /** @var resource */
    private $process;

    /** pattern: of the line that says the program is ready, which is returned in said. */
    public function __construct(array $command, string $pattern, public array $said = [])
    {
        $output = tempnam(sys_get_temp_dir(), 'stint-php-');
        $pipes = [];
        $this->process = proc_open($command, [['file', '/dev/null', 'r'], ['file', $output, 'w'], ['redirect', 1]], $pipes);
        while (!preg_match($pattern, $text = file_get_contents($output), $this->said)) {
            if (!proc_get_status($this->process)['running']) {
                throw new RuntimeException("$command[0] ended: $text");
            }
            usleep(5000);
        }
        unlink($output);
    }

    public function close(): void
    {
        proc_terminate($this->process);
        proc_close($this->process);
    }
}

/** A node on a free port; gives its base URL. */
function node(array $flags = [], string $policies = POLICIES): string
{
    $binary = getenv('STINT_BINARY') ?: throw new RuntimeException('STINT_BINARY is not set: make php builds the program stint');
    $command = [$binary, 'serve', '--dev', '--policies', $policies, '--api-addr', '127.0.0.1:0', ...$flags];
    return later(new Program($command, '/stint is ready at (https?:\S+)\s/'))->said[1];
}

/** Scripted servers: see server.php. */
class Servers
{
    /** @var list<string> */
    public array $urls;
    private string $control;

    public function __construct(array $answers, int $nodes = 1, ?string $target = null)
    {
        $script = json_encode(['nodes' => $nodes, 'answers' => $answers, 'target' => $target]);
        $program = later(new Program([PHP_BINARY, __DIR__ . '/server.php', $script], '/^(\[.*\])$/m'));
        $urls = array_map(fn (int $port) => "http://127.0.0.1:$port", json_decode($program->said[1]));
        $this->control = array_shift($urls);
        $this->urls = $urls;
    }

    /** The headers and the body of each request. */
    public function requests(): array
    {
        return $this->seen()['requests'];
    }

    public function connections(): int
    {
        return $this->seen()['connections'];
    }

    private function seen(): array
    {
        $stream = stream_socket_client('tcp://' . substr($this->control, 7));
        fwrite($stream, "GET /seen HTTP/1.1\r\n\r\n");
        stream_get_line($stream, 1 << 20, "\r\n");
        preg_match('/\d+/', stream_get_line($stream, 1 << 20, "\r\n\r\n"), $length);
        $text = stream_get_contents($stream, (int) $length[0]);
        fclose($stream);
        return json_decode($text, true);
    }
}

/** Has close called when the test, or else the program, ends. */
function later(object $closer): object
{
    global $closers;
    $closers[] = $closer;
    return $closer;
}

/** A base URL at which nobody listens. */
function refused(): string
{
    $listener = stream_socket_server('tcp://127.0.0.1:0');
    $name = stream_socket_get_name($listener, false);
    fclose($listener);
    return "http://$name";
}

/** A client that begins at the first of its addresses. */
function client(array $addresses, mixed ...$options): Stint
{
    $client = new Stint($addresses, ...($options + ['timeout' => 60.0]));
    (new ReflectionProperty($client, 'next'))->setValue($client, 0);
    return $client;
}

function same(mixed $want, mixed $got, string $about = ''): void
{
    if ($want !== $got) {
        throw new Exception("$about got " . var_export($got, true) . ', want ' . var_export($want, true));
    }
}

/** Calls what must fail, and returns its error. */
function fails(callable $call, string $class = StintError::class): Throwable
{
    try {
        $call();
    } catch (Throwable $error) {
        return $error instanceof $class ? $error : throw $error;
    }
    throw new Exception('it did not fail');
}

function test(string $name, callable $body): void
{
    global $closers, $failed;
    $before = count($closers ?? []);
    try {
        $body();
        echo "ok $name\n";
    } catch (Throwable $error) {
        $failed = true;
        echo "FAIL $name: {$error->getMessage()}\n{$error->getTraceAsString()}\n";
    }
    foreach (array_splice($closers, $before) as $closer) {
        $closer->close();
    }
}

// A warning is a fault of the code, wherever it is not silenced.
set_error_handler(function (int $level, string $text, string $file, int $line): bool {
    return (error_reporting() & $level) !== 0 ? throw new ErrorException($text, 0, $level, $file, $line) : true;
});
$closers = [];
$failed = false;
register_shutdown_function(function () use (&$closers, &$failed): void {
    foreach ($closers as $closer) {
        $closer->close();
    }
    exit($failed ? 1 : 0);
});
