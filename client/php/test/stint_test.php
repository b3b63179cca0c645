<?php

/** The client beside a real node. */

declare(strict_types=1);

require __DIR__ . '/harness.php';

use Stint\LimitStatus;
use Stint\Stint;
use Stint\StintError;

// What a cluster says that cannot decide. It is not asked again: no test has to wait for the end of a time.
const UNDECIDED = ['status' => 500, 'body' => ['code' => 'internal', 'message' => 'cannot decide',
    'details' => [['type' => 'stint.v1.Failure', 'value' => '']]]];
const ALLOWED = ['status' => 200, 'body' => ['decision' => ['allowed' => true]]];

$node = node();
$limits = client([$node]);

function used(string $policy, string $key): int
{
    global $limits;
    return $limits->get(['policy' => $policy, 'key' => $key])[0]->used;
}

test('a call has a bound of its own', function () {
    foreach ([[[], 5000], [['timeout' => 0.7], 700]] as [$options, $most]) {
        $servers = new Servers([UNDECIDED]);
        fails(fn () => (new Stint($servers->urls, ...$options))->check(['policy' => 'five', 'key' => 'bound']));
        $told = (int) $servers->requests()[0][0]['connect-timeout-ms'];
        same(true, 0 < $told && $told <= $most, "$told ms");
    }
});

test('a check counts, and a denial is a decision with its wait', function () use ($limits) {
    for ($i = 1; $i <= 5; $i++) {
        $d = $limits->check(['policy' => 'five', 'key' => 'php counts']);
        same([true, $i, 5 - $i], [$d->allowed, $d->limits[0]->used, $d->limits[0]->remaining]);
    }
    $d = $limits->check(['policy' => 'five', 'key' => 'php counts']);
    same([false, ['five/ever'], null, null], [$d->allowed, $d->deniedBy, $d->retryAfter, $d->retryAfterSeconds]);
    for ($i = 0; $i < 4; $i++) {
        $d = $limits->check(['policy' => 'window', 'key' => 'php counts']);
    }
    same(true, !$d->allowed && 0 < $d->retryAfter && $d->retryAfter <= 86400);
    same((string) $d->retryAfterSeconds, $d->headers['Retry-After']);
});

test('an answer that got lost is asked for again and counts once', function () use ($node) {
    $servers = new Servers(['lost', 'pass'], 2, $node);
    $d = client($servers->urls)->check(['policy' => 'many', 'key' => 'php lost']);
    same([true, true], [$d->allowed, $d->replayed]);
    [[, $first], [, $second]] = $servers->requests();
    same(1, preg_match('/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/', $first['idempotencyId']));
    same($first, $second);
    same(1, used('many', 'php lost'));
});

test('a node that never answers costs its share of the time', function () use ($node) {
    $silent = new Servers(['hang'], 1, $node);
    $d = client([...$silent->urls, $node], timeout: 8)->check(['policy' => 'many', 'key' => 'php hangs']);
    same([true, true], [$d->allowed, $d->replayed]);
    same(1, used('many', 'php hangs'));
});

test('the time of a call ends, and what was sent may have been counted', function () use ($node) {
    $silent = new Servers(['hang'], 1, $node);
    $e = fails(fn () => client($silent->urls, timeout: 0.3)->check(['policy' => 'many', 'key' => 'php late']));
    same(['aborted', true, true], [$e->rpcCode, $e->maybeApplied, $e->noDecision]);
});

test('without an id, what may have been counted is not repeated', function () use ($node) {
    $servers = new Servers(['lost'], 2, $node);
    $e = fails(fn () => client($servers->urls)->check(['policy' => 'many', 'key' => 'php no id'], idempotencyId: null));
    same(['aborted', true, true], [$e->rpcCode, $e->maybeApplied, $e->noDecision]);
    same('', $servers->requests()[0][1]['idempotencyId']);
    same(1, used('many', 'php no id'));
});

test('an address at which nobody listens is certainly not counted', function () use ($node) {
    $refused = refused();
    same(true, client([$refused, $node])->check(['policy' => 'many', 'key' => 'php refused'], idempotencyId: null)->allowed);
    $e = fails(fn () => client([$refused], timeout: 0.3)->check(['policy' => 'many', 'key' => 'php refused']));
    same(['unavailable', false, true], [$e->rpcCode, $e->maybeApplied, $e->noDecision]);
    same(1, used('many', 'php refused'));
});

test('a wrong request is refused once and names the field', function () use ($node, $limits) {
    $e = fails(fn () => $limits->check(['policy' => 'nope', 'key' => 'k']));
    same(['not_found', false, false], [$e->rpcCode, $e->noDecision, $e->unknownKey]);
    same(true, str_contains($e->getMessage(), 'entries[0].policy'));
    same(true, fails(fn () => $limits->check(['policy' => 'known', 'key' => 'k']))->unknownKey);
    $servers = new Servers(['pass'], 1, $node);
    $client = client($servers->urls);
    foreach (['', null, 7] as $key) {
        same(true, str_contains(fails(fn () => $client->check(['policy' => 'five', 'key' => $key]))->detail, 'entries[0].key'));
    }
    foreach ([-1, 1.5, true] as $cost) {
        $e = fails(fn () => $client->check([['policy' => 'five', 'key' => 'k', 'cost' => $cost]]));
        same(true, str_contains($e->detail, 'entries[0].cost'));
    }
    foreach ([0.0, -1.0, NAN, INF] as $timeout) {
        same(true, str_contains(fails(fn () => $client->check(['policy' => 'five', 'key' => 'k'], timeout: $timeout))->detail, 'timeout'));
        fails(fn () => new Stint([$node], timeout: $timeout), InvalidArgumentException::class);
    }
    same('invalid_argument', fails(fn () => $client->check([]))->rpcCode);
    same('invalid_argument', fails(fn () => $client->check(['policy' => 'five', 'key' => "\xff"]))->rpcCode);
    same('invalid_argument', fails(fn () => $client->check(['policy' => 'five', 'key' => 'k'], idempotencyId: ''))->rpcCode);
    same([], $servers->requests());
});

test('a hold is settled once, and a decision given back once', function () use ($limits) {
    $hold = $limits->reserve(['policy' => 'login', 'key' => 'php ann'], ttl: 30);
    same(true, $hold->allowed && $hold->holdId !== '' && $hold->holdExpiresAt > $hold->decidedAt);
    same(true, $limits->settle($hold, 'extend', ttl: 60)->holdExpiresAt > $hold->holdExpiresAt);
    $limits->settle($hold, 'success');
    $limits->settle($hold->holdId, 'success');
    same('failed_precondition', fails(fn () => $limits->settle($hold, 'failed'))->rpcCode);
    for ($i = 0; $i < 3; $i++) {
        $limits->settle($limits->reserve(['policy' => 'login', 'key' => 'php bob']), 'failed');
    }
    $blocked = $limits->reserve(['policy' => 'login', 'key' => 'php bob']);
    same([false, 'Too many attempts.'], [$blocked->allowed, $blocked->reason]);
    same(true, str_contains(fails(fn () => $limits->settle($blocked, 'failed'))->detail, 'nothing to settle'));
    $limits->adjust('login', 'php bob', 'unblock');
    $d = $limits->check(['policy' => 'many', 'key' => 'php refund', 'cost' => 10]);
    $limits->settle($d, 'commit', actualCost: [4]);
    same(4, used('many', 'php refund'));
    fails(fn () => $limits->settle($d, 'cancel', actualCost: [1]));
});

test('limits that a request brings along', function () use ($limits) {
    $entry = ['policy' => 'inline', 'key' => 'php', 'limits' => [['name' => 'ever', 'quota' => '2', 'lifetime' => new stdClass()]]];
    $allowed = array_map(fn () => $limits->check($entry)->allowed, range(1, 3));
    same([true, true, false], $allowed);
});

test('8 processes get exactly 5 of 5', function () use ($node) {
    $program = 'require "' . __DIR__ . '/../Stint.php"; $l = new Stint\Stint(["' . $node . '"], timeout: 60); $n = 0;'
        . 'for ($i = 0; $i < 4; $i++) { $n += (int) $l->check(["policy" => "five", "key" => "php crowd"])->allowed; } echo $n;';
    $outputs = array_map(fn () => popen(PHP_BINARY . ' -r ' . escapeshellarg($program), 'r'), range(1, 8));
    same(5, array_sum(array_map(fn ($output) => (int) stream_get_contents($output), $outputs)));
    array_map('pclose', $outputs);
});

test('a connection is kept, and one that the node has closed is not used again', function () use ($node) {
    $servers = new Servers(['pass', 'last', 'pass'], 1, $node);
    $client = client($servers->urls);
    $check = fn () => $client->check(['policy' => 'many', 'key' => 'php stale'], idempotencyId: null);
    same([true, true, 1], [$check()->allowed, $check()->allowed, $servers->connections()]);
    same([true, 2], [$check()->allowed, $servers->connections()]);
    same(3, used('many', 'php stale'));
});

test('a fork does not read the answers of its parent', function () use ($node) {
    $servers = new Servers(['pass'], 1, $node);
    $client = client($servers->urls);
    $client->check(['policy' => 'many', 'key' => 'php fork']);
    $child = pcntl_fork();
    if ($child === 0) {
        $client->check(['policy' => 'many', 'key' => 'php fork']);
        posix_kill(getmypid(), SIGKILL); // without the end of the tests
    }
    pcntl_waitpid($child, $status);
    $client->check(['policy' => 'many', 'key' => 'php fork']);
    same([3, 2], [count($servers->requests()), $servers->connections()]);
});

test('an answer in chunks, behind one that is not the last', function () {
    $servers = new Servers([['chunked' => true] + ALLOWED]);
    $client = client($servers->urls);
    same(true, $client->check(['policy' => 'five', 'key' => 'k'])->allowed);
    same([true, 1], [$client->check(['policy' => 'five', 'key' => 'k'])->allowed, $servers->connections()]);
});

test('an answer that is none may have been counted, and is never allowed', function () {
    foreach (['', '[]', 'true', '{"decision":7}', '{"decision":{"allowed":true}'] as $body) {
        $servers = new Servers([['status' => 200, 'body' => $body]]);
        $e = fails(fn () => client($servers->urls)->check(['policy' => 'five', 'key' => 'k'], idempotencyId: null));
        same(['aborted', true], [$e->rpcCode, $e->maybeApplied], $body);
    }
    foreach (['GAA=', 'GA==', 'GP8=', 'CA==', 'CgVh', 'IAE=', '!'] as $value) { // a detail that ends early, or is of another message
        $body = ['code' => 'internal', 'details' => [['type' => 'stint.v1.Failure', 'value' => $value]]];
        $servers = new Servers([['status' => 500, 'body' => $body]]);
        $e = fails(fn () => client($servers->urls)->check(['policy' => 'five', 'key' => 'k'], idempotencyId: null));
        same($value !== 'GAA=', $e->maybeApplied, $value);
    }
});

test('a token goes to https and to this machine only', function () use ($node) {
    foreach (['http://192.0.2.1:7400', 'http://node.example.com', 'http://localhost.example.com', 'http://[2001:db8::1]:7400',
        'http://0.0.0.0'] as $address) {
        $e = fails(fn () => new Stint([$node, $address], 'stint_x_y'), InvalidArgumentException::class);
        same(true, str_contains($e->getMessage(), 'not sent in the clear'));
        new Stint([$address]);
    }
    foreach (['https://node.example.com', 'http://localhost:7400', 'http://127.1.2.3', 'http://[::1]:7400',
        'http://[::ffff:127.0.0.1]:7400'] as $address) {
        new Stint([$address], 'stint_x_y');
    }
    $servers = new Servers([ALLOWED]);
    client($servers->urls, token: 'stint_x_y')->check(['policy' => 'many', 'key' => 'k']);
    client($servers->urls)->check(['policy' => 'many', 'key' => 'k']);
    same(['Bearer stint_x_y', null], array_map(fn ($request) => $request[0]['authorization'] ?? null, $servers->requests()));
    fails(fn () => new Stint([$node], "stint_x\r\nX: y"), InvalidArgumentException::class);
});

test('addresses that are none are refused', function () {
    foreach ([[], ['localhost:7400'], ['127.0.0.1:7400'], ['ftp://x'], ['http://'], ['http://a/?b'], ['http://a:b'],
        ["http://a\r\nX: y"], ['http://u:secret@127.0.0.1']] as $addresses) {
        $e = fails(fn () => new Stint($addresses), InvalidArgumentException::class);
        same(false, str_contains($e->getMessage(), 'secret'));
    }
});

test('TLS and tokens of a real node', function () {
    $dir = sys_get_temp_dir() . '/stint-php-' . bin2hex(random_bytes(6));
    mkdir($dir, 0700);
    later(new class ($dir) {
        public function __construct(private string $dir)
        {
        }

        public function close(): void
        {
            array_map('unlink', glob("$this->dir/*"));
            rmdir($this->dir);
        }
    });
    exec("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout $dir/key.pem -out $dir/cert.pem -days 2"
        . ' -subj /CN=stint -addext subjectAltName=IP:127.0.0.1 2>&1', $output, $status);
    same(0, $status);
    $token = trim(shell_exec(getenv('STINT_BINARY') . ' token generate'));
    file_put_contents("$dir/token", $token);
    array_map(fn ($file) => chmod($file, 0600), glob("$dir/*"));
    $url = node(['--api-cert', "$dir/cert.pem", '--api-key', "$dir/key.pem", '--admin-token-file', "$dir/token"]);
    $entry = ['policy' => 'five', 'key' => 'tls'];
    $tls = ['cafile' => "$dir/cert.pem"];
    $client = client([$url], token: $token, tls: $tls);
    same([true, true, true], [$client->check($entry)->allowed, $client->check($entry)->allowed, $client->ready()]);
    foreach (['', 'stint_x_y'] as $wrong) {
        $e = fails(fn () => client([$url], token: $wrong, tls: $tls)->check($entry));
        same(['unauthenticated', false, false], [$e->rpcCode, $e->maybeApplied, $e->noDecision]);
    }
    foreach ([[$url, []], [str_replace('127.0.0.1', 'localhost', $url), $tls]] as [$address, $trust]) { // another authority, name
        $e = fails(fn () => client([$address], timeout: 1, token: $token, tls: $trust)->check($entry));
        same(['unavailable', false], [$e->rpcCode, $e->maybeApplied]);
    }
    $e = fails(fn () => client([str_replace('https', 'http', $url)])->check($entry));
    same(['failed_precondition', false], [$e->rpcCode, $e->maybeApplied]);
});

test('ready', function () use ($limits) {
    same(true, $limits->ready());
    same(false, client([refused()])->ready());
});

test('keys of text from outside', function () {
    foreach ([
        ['user:42', 'user:42'],
        ["{a}%\n=|", '%7Ba%7D%25%0A%3D%7C'],
        ["\u{85}", '%C2%85'],
        [['a' => 'x|b=y', 'b' => 'z'], 'a=x%7Cb%3Dy|b=z'],
        [['route' => '/x/{y}', 'user' => 'z'], 'route=%2Fx%2F%7By%7D|user=z'],
        ['vendor:acme/product:x', 'vendor:acme/product:x'],
        [str_repeat('a', 600), str_repeat('a', 447) . '|' . hash('sha256', str_repeat('a', 153))],
    ] as [$text, $key]) {
        same($key, Stint::safeKey($text));
    }
    foreach (['', null, [], ['a' => ''], ['a' => null, 'b' => 'x'], "\xff", "\xed\xa0\x80"] as $missing) {
        same(null, Stint::safeKey($missing));
    }
    $long = str_repeat('ü', 400);
    same(true, strlen(Stint::safeKey($long)) <= 512 && preg_match('//u', Stint::safeKey($long)) === 1);
    same(false, Stint::safeKey($long) === Stint::safeKey($long . 'x'));
});

test('the code of the pages runs', function () {
    $page = node(policies: ROOT . '/policy/dev.yaml');
    $blocks = [];
    foreach ([__DIR__ . '/../README.md', ROOT . '/docs/errors.md'] as $name) {
        preg_match_all('/^```php\n(.*?)^```/ms', file_get_contents($name), $found);
        $blocks = [...$blocks, ...$found[1]];
    }
    same(4, count($blocks));
    $autoload = '/usr/share/php/Symfony/Component/RateLimiter/autoload.php';
    foreach ($blocks as $block) {
        $pipes = [];
        $program = "require '$autoload';\n" . str_replace('127.0.0.1:7400', substr($page, 7), $block);
        $command = [PHP_BINARY, '-d', 'error_reporting=-1', '-r', $program];
        $process = proc_open($command, [1 => ['pipe', 'w'], 2 => ['redirect', 1]], $pipes, __DIR__ . '/..');
        $said = stream_get_contents($pipes[1]);
        same([0, ''], [proc_close($process), $said], $block);
    }
});
