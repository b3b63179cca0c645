<?php

declare(strict_types=1);

/**
 * Client of stint, the rate limiter and quota service that counts exactly. One file without extensions, for PHP 8.1 and
 * later on 64 bits.
 *
 *     $limits = new Stint\Stint(['http://127.0.0.1:7400']);
 *     $decision = $limits->check(['policy' => 'login', 'key' => 'user:42']);
 *     if (!$decision->allowed) {
 *         echo "wait $decision->retryAfterSeconds s";
 *     }
 *
 * A denial is a Decision, never an error. An error is a StintError, never a denial. README.md is the manual.
 */

namespace Stint;

/** Why there is no decision. It is never a denial. */
final class StintError extends \RuntimeException
{
    private const NO_DECISION = ['unavailable', 'aborted', 'deadline_exceeded', 'canceled', 'internal', 'unknown', 'data_loss',
        'resource_exhausted'];

    /** The cluster could not decide: the case for a fail mode. False: the request will never be right, or its key has no room. */
    public readonly bool $noDecision;

    /** The cluster refuses another key (max_keys, or a full shard). A stranger can cause it: let no request pass for it. */
    public readonly bool $noRoom;

    /** The policy refuses keys without an override (unknown_key: deny), and this key has none. */
    public readonly bool $unknownKey;

    /**
     * rpcCode: name of the RPC code, as in "unavailable". maybeApplied: the request was counted once or not at all; false: it
     * was certainly not counted.
     */
    public function __construct(
        public readonly string $rpcCode,
        public readonly string $detail,
        public readonly bool $maybeApplied = false,
    ) {
        parent::__construct("stint: $rpcCode: $detail");
        $this->noRoom = str_contains($detail, 'until old ones end');
        $this->noDecision = in_array($rpcCode, self::NO_DECISION, true) && !$this->noRoom;
        $this->unknownKey = $rpcCode === 'not_found' && preg_match('/^(check\.)?entries\[\d+\]\.key: /', $detail) === 1;
    }
}

/** State of one limit after a decision. */
final class LimitStatus
{
    /** retryAfter: seconds. soft: where it has no room, it asks for a challenge. */
    public function __construct(
        public readonly string $policy,
        public readonly string $limit,
        public readonly string $key,
        public readonly int $quota,
        public readonly int $used,
        public readonly int $held,
        public readonly int $remaining,
        public readonly int $granted,
        public readonly ?\DateTimeImmutable $windowStart,
        public readonly ?\DateTimeImmutable $resetAt,
        public readonly ?float $retryAfter,
        public readonly bool $allowed,
        public readonly bool $shadow,
        public readonly bool $unlimited,
        public readonly int $lockoutLevel,
        public readonly ?\DateTimeImmutable $blockedUntil,
        public readonly bool $soft,
    ) {
    }
}

/** Allowed or denied, with the state of every limit. */
final class Decision
{
    /** The wait in whole seconds, rounded up, 1 at least; null: no wait helps. */
    public readonly ?int $retryAfterSeconds;

    /**
     * decisionId: handle for a refund; empty for a denial. reason: safe to show. retryAfter: seconds. headers: to copy into a
     * response. replayed: counted before, under the same id, and not again. challenge: not allowed, and only limits with
     * on_exceeded: challenge say no: ask for a proof of a person. leased: from a lease, as of its grant: used contains all of
     * the lease, and there is no decisionId.
     *
     * @param list<LimitStatus> $limits
     * @param list<string> $deniedBy
     * @param array<string, string> $headers
     */
    public function __construct(
        public readonly bool $allowed,
        public readonly string $decisionId,
        public readonly array $limits,
        public readonly array $deniedBy,
        public readonly string $reason,
        public readonly ?float $retryAfter,
        public readonly ?\DateTimeImmutable $decidedAt,
        public readonly array $headers,
        public readonly string $holdId,
        public readonly ?\DateTimeImmutable $holdExpiresAt,
        public readonly bool $replayed,
        public readonly bool $shadowDenied,
        public readonly string $explanation,
        public readonly bool $challenge,
        public readonly bool $leased,
    ) {
        $this->retryAfterSeconds = $retryAfter === null ? null : max(1, (int) ceil($retryAfter));
    }
}

/** Client of one cluster. A program needs one. After a fork, each process may use it: connections are not shared. */
final class Stint
{
    /** As an idempotency id: a new one for each call. */
    public const DRAWN = "\0";

    private const PAUSE_LEAST = 0.010; // seconds
    private const PAUSE_MOST = 0.200;
    private const ATTEMPT_LEAST = 0.250; // what one address is given at least before the next is asked
    private const REST_LEAST = 0.050; // less is left out: such an attempt could only make a certain failure unsure
    private const KEY_BYTES_MOST = 512;

    /** @var list<Node> */
    private array $nodes;
    private int $next; // index of the node to ask: the last one that answered

    /**
     * addresses are base URLs of some nodes; the next one is asked when one does not answer. timeout: seconds for a call with
     * all its attempts; finding the address of a host name is not bounded by it. tls: PHP's context options for https://, as
     * in ['cafile' => '/etc/stint/ca.pem'].
     *
     * @param list<string> $addresses
     * @param array<string, mixed> $tls
     */
    public function __construct(
        array $addresses,
        private readonly string $token = '',
        private readonly float $timeout = 5.0,
        private readonly string $namespace = '',
        array $tls = [],
    ) {
        if ($addresses === []) {
            throw new \InvalidArgumentException('stint: no address: give the base URL of one node at least, as in http://127.0.0.1:7400');
        }
        if (!($timeout > 0 && is_finite($timeout))) {
            throw new \InvalidArgumentException('stint: timeout must be a number of seconds above 0');
        }
        if (preg_match('/[^\x21-\x7e]/', $token)) {
            throw new \InvalidArgumentException('stint: the token is not one that stint gave out');
        }
        $this->nodes = array_map(fn (string $address) => new Node($address, $token !== '', $tls), array_values($addresses));
        $this->next = random_int(0, count($this->nodes) - 1);
    }

    /** Closes idle connections. */
    public function close(): void
    {
        foreach ($this->nodes as $node) {
            $node->close();
        }
    }

    /**
     * Decides and counts: all entries or none. An entry is ['policy' =>, 'key' =>], perhaps with cost, tier or limits; several
     * are a list. mode: enforce, count, peek or partial. idempotencyId: by default a new one, so that a retry counts once;
     * null: none, and a request that may have been counted is not repeated. timeout: seconds, in place of the client's.
     */
    public function check(array $entries, string $mode = '', ?string $idempotencyId = self::DRAWN, bool $explain = false,
        ?float $timeout = null, ?string $namespace = null): Decision
    {
        $request = $this->request($entries, $mode, $idempotencyId, $explain, $namespace);
        return self::decision($this->call('Check', $request, $request['idempotencyId'] !== '', $timeout));
    }

    /** Takes units as a hold that settle ends. ttl: seconds. onExpire: cancel or commit; "": the policy's. */
    public function reserve(array $entries, float $ttl = 60.0, string $onExpire = '', ?string $idempotencyId = self::DRAWN,
        ?float $timeout = null, ?string $namespace = null): Decision
    {
        $check = $this->request($entries, '', $idempotencyId, false, $namespace);
        $request = ['check' => $check, 'ttl' => self::seconds($ttl)];
        if ($onExpire !== '') {
            $request['onExpire'] = 'ON_EXPIRE_' . strtoupper($onExpire);
        }
        return self::decision($this->call('Reserve', $request, $check['idempotencyId'] !== '', $timeout));
    }

    /**
     * Ends a hold (commit, cancel, success, failed), makes it live longer (extend, with ttl in seconds), or gives back what a
     * decision took (cancel). The same settlement sent again does nothing. target: the Decision, or the id of a hold;
     * decisionId: in its place, the id of a decision.
     *
     * @param ?list<int> $actualCost
     */
    public function settle(Decision|string $target, string $action, ?array $actualCost = null, string $overage = '',
        ?float $ttl = null, string $decisionId = '', ?float $timeout = null): Decision
    {
        $hold = is_string($target) ? $target : $target->holdId;
        $decided = $decisionId === '' && !is_string($target) ? $target->decisionId : $decisionId;
        if ($hold === '' && $decided === '') {
            throw new StintError('invalid_argument', 'target: has no hold and no decision: a denial has nothing to settle');
        }
        if (!in_array($action, ['commit', 'cancel', 'success', 'failed', 'extend'], true)) {
            throw new StintError('invalid_argument', 'action: must be commit, cancel, success, failed or extend');
        }
        if ($action !== 'commit' && ($actualCost !== null || $overage !== '')) {
            throw new StintError('invalid_argument', 'action: actualCost and overage belong to commit');
        }
        $how = [];
        if ($actualCost !== null) {
            $how['actualCost'] = array_map('strval', $actualCost);
        }
        if ($overage !== '') {
            $how['overage'] = 'OVERAGE_' . strtoupper($overage);
        }
        $request = $hold !== '' ? ['holdId' => $hold] : ['decisionId' => $decided];
        if ($action === 'extend') {
            $how['ttl'] = self::seconds($ttl ?? throw new StintError('invalid_argument', 'ttl: is missing'));
            $request['idempotencyId'] = self::newId();
        }
        return self::decision($this->call('Settle', $request + [$action => (object) $how], true, $timeout));
    }

    /**
     * Returns the state of keys and changes nothing.
     *
     * @return list<LimitStatus>
     */
    public function get(array $entries, bool $staleOk = false, ?float $timeout = null, ?string $namespace = null): array
    {
        $request = ['namespace' => $namespace ?? $this->namespace, 'entries' => self::entries($entries), 'staleOk' => $staleOk];
        return array_map(self::limit(...), $this->call('Get', $request, true, $timeout)['limits'] ?? []);
    }

    /**
     * Resets or unblocks a key by one policy, or by one of its limits. action: reset or unblock. It is kept in the audit log, and
     * needs a token that may adjust.
     *
     * @return list<LimitStatus>
     */
    public function adjust(string $policy, string $key, string $action, string $limit = '', string $note = '',
        ?float $timeout = null, ?string $namespace = null): array
    {
        if (!in_array($action, ['reset', 'unblock'], true)) {
            throw new StintError('invalid_argument', 'action: must be reset or unblock');
        }
        [$entry] = self::entries(['policy' => $policy, 'key' => $key]);
        $request = $entry + ['namespace' => $namespace ?? $this->namespace, 'limit' => $limit, 'note' => $note,
            $action => new \stdClass(), 'idempotencyId' => self::newId()];
        return array_map(self::limit(...), $this->call('Adjust', $request, true, $timeout)['limits'] ?? []);
    }

    /** Reports whether a node can serve. It never throws. */
    public function ready(?float $timeout = null): bool
    {
        $within = ($timeout ?? $this->timeout) / count($this->nodes);
        foreach ($this->nodes as $node) {
            try {
                if ($node->exchange('GET', '/readyz', [], '', $within)[0] === 200) {
                    return true;
                }
            } catch (StintError) {
                // the next one
            }
        }
        return false;
    }

    /**
     * Makes a key of text that comes from outside, as a value or as parts by name. Different values give different keys. "%",
     * "=", "|", braces and controls are written in percent: a brace would let a client choose the shard. So is "/" in parts:
     * what stands before it is the key of a parent, which only a text may name. The end of a key over 512 bytes becomes its
     * SHA-256. A text has the same key in the middleware for Go. null: the value, or one of the parts, is missing, empty or
     * not UTF-8.
     *
     * @param string|array<string, ?string>|null $value
     */
    public static function safeKey(string|array|null $value): ?string
    {
        $isText = fn (mixed $text): bool => is_string($text) && $text !== '' && preg_match('//u', $text) === 1;
        $escaped = fn (string $text): string => preg_replace_callback('/[%=|{}\x{0}-\x{1f}\x{7f}-\x{9f}]/u',
            fn (array $c) => preg_replace('/../', '%$0', strtoupper(bin2hex($c[0]))), $text);
        if (!is_array($value)) {
            return $isText($value) ? self::shortened($escaped($value)) : null;
        }
        $parts = [];
        foreach ($value as $name => $text) {
            if (!$isText($text)) {
                return null;
            }
            $parts[] = str_replace('/', '%2F', $escaped((string) $name) . '=' . $escaped($text));
        }
        return $parts === [] ? null : self::shortened(implode('|', $parts));
    }

    /** Keeps the beginning of a long key, for people to read. No other key ends like that: behind the last bar of parts is "=". */
    private static function shortened(string $text): string
    {
        if (strlen($text) <= self::KEY_BYTES_MOST) {
            return $text;
        }
        $cut = self::KEY_BYTES_MOST - 65;
        while ((ord($text[$cut]) & 0xC0) === 0x80) { // not within a character
            $cut--;
        }
        return substr($text, 0, $cut) . '|' . hash('sha256', substr($text, $cut));
    }

    /** The fields of a check. */
    private function request(array $entries, string $mode, ?string $id, bool $explain, ?string $namespace): array
    {
        if ($id === '') {
            throw new StintError('invalid_argument', 'idempotencyId: must be a text; null sends none');
        }
        $request = ['namespace' => $namespace ?? $this->namespace, 'entries' => self::entries($entries),
            'idempotencyId' => $id === self::DRAWN ? self::newId() : $id ?? '', 'explain' => $explain];
        return $mode === '' ? $request : $request + ['mode' => 'MODE_' . strtoupper($mode)];
    }

    /**
     * Sends a request until it is answered, its time is over, or a retry would be unsafe or useless. countsOnce: sending it
     * twice counts it once.
     */
    private function call(string $method, array $request, bool $countsOnce, ?float $timeout): array
    {
        $timeout ??= $this->timeout;
        if (!($timeout > 0 && is_finite($timeout))) {
            throw new StintError('invalid_argument', 'timeout: must be a number of seconds above 0');
        }
        try {
            $body = json_encode($request, JSON_THROW_ON_ERROR);
        } catch (\JsonException $error) {
            throw new StintError('invalid_argument', 'the request is no JSON: ' . $error->getMessage());
        }
        $ends = Node::now() + $timeout;
        $maybeApplied = false; // by an earlier attempt, whatever a later one says
        for ($attempt = 0;; $attempt++) {
            $at = $this->next;
            $left = $ends - Node::now();
            $within = max(0.001, min($left, max(self::ATTEMPT_LEAST, $left / count($this->nodes))));
            try {
                return $this->nodes[$at]->ask("/stint.v1.LimitService/$method", $body, $this->headers($within), $within);
            } catch (StintError $error) {
                $failure = $error;
            }
            $elsewhere = $failure->maybeApplied || $failure->rpcCode === 'unavailable' && !$failure->noRoom;
            if ($elsewhere) {
                $this->next = ($at + 1) % count($this->nodes);
            }
            $again = $elsewhere && ($countsOnce || !$failure->maybeApplied);
            if ($maybeApplied && !$failure->maybeApplied) {
                $said = $failure->getMessage();
                $failure = new StintError('aborted', "an earlier attempt may have been counted; the last one: $said", true);
            }
            $maybeApplied = $failure->maybeApplied;
            // Another address is asked at once, the same one after a pause.
            $pause = $attempt + 1 < count($this->nodes) ? 0.0 : min(self::PAUSE_LEAST * 2 ** min($attempt, 8), self::PAUSE_MOST);
            if (!$again || Node::now() + $pause + self::REST_LEAST > $ends) {
                throw $failure;
            }
            usleep((int) ($pause * 1e6));
            if (Node::now() + self::REST_LEAST > $ends) { // the pause was longer than it should have been
                throw $failure;
            }
        }
    }

    /** @return array<string, string> */
    private function headers(float $within): array
    {
        $headers = ['Content-Type' => 'application/json', 'Connect-Timeout-Ms' => (string) max(1, (int) ceil($within * 1000))];
        return $this->token === '' ? $headers : $headers + ['Authorization' => "Bearer $this->token"];
    }

    /** Checks entries. One without a key is refused here: the empty text of a template is a key that all callers share. */
    private static function entries(array $entries): array
    {
        if ($entries === []) {
            throw new StintError('invalid_argument', 'entries: there must be one at least');
        }
        $messages = [];
        foreach (array_is_list($entries) ? $entries : [$entries] as $i => $entry) {
            $key = $entry['key'] ?? null;
            if (!is_string($key) || $key === '') {
                throw new StintError('invalid_argument', "entries[$i].key: is missing or empty: all callers would share it");
            }
            if (($entry['policy'] ?? '') === '' && !isset($entry['limits'])) {
                throw new StintError('invalid_argument', "entries[$i].policy: is missing");
            }
            $message = array_intersect_key($entry, ['policy' => 1, 'key' => 1, 'tier' => 1, 'limits' => 1]);
            $cost = $entry['cost'] ?? null;
            if ($cost !== null) {
                if (!is_int($cost) || $cost < 0) {
                    throw new StintError('invalid_argument', "entries[$i].cost: must be a whole number from 0");
                }
                $message['cost'] = (string) $cost;
            }
            $messages[] = $message;
        }
        return $messages;
    }

    private static function decision(array $answer): Decision
    {
        $d = $answer['decision'] ?? null;
        if (!is_array($d)) {
            throw new StintError('aborted', 'an answer without a decision', true);
        }
        return new Decision(
            allowed: ($d['allowed'] ?? null) === true,
            decisionId: $d['decisionId'] ?? '',
            limits: array_map(self::limit(...), $d['limits'] ?? []),
            deniedBy: $d['deniedBy'] ?? [],
            reason: $d['reason'] ?? '',
            retryAfter: self::span($d['retryAfter'] ?? null),
            decidedAt: self::instant($d['decidedAt'] ?? null),
            headers: $d['headers'] ?? [],
            holdId: $d['holdId'] ?? '',
            holdExpiresAt: self::instant($d['holdExpiresAt'] ?? null),
            replayed: ($d['replayed'] ?? null) === true,
            shadowDenied: ($d['shadowDenied'] ?? null) === true,
            explanation: $d['explanation'] ?? '',
            challenge: ($d['outcome'] ?? null) === 'OUTCOME_CHALLENGE',
            leased: ($d['leased'] ?? null) === true,
        );
    }

    private static function limit(array $l): LimitStatus
    {
        return new LimitStatus(
            policy: $l['policy'] ?? '',
            limit: $l['limit'] ?? '',
            key: $l['key'] ?? '',
            quota: (int) ($l['quota'] ?? 0),
            used: (int) ($l['used'] ?? 0),
            held: (int) ($l['held'] ?? 0),
            remaining: (int) ($l['remaining'] ?? 0),
            granted: (int) ($l['granted'] ?? 0),
            windowStart: self::instant($l['windowStart'] ?? null),
            resetAt: self::instant($l['resetAt'] ?? null),
            retryAfter: self::span($l['retryAfter'] ?? null),
            allowed: ($l['allowed'] ?? null) === true,
            shadow: ($l['shadow'] ?? null) === true,
            unlimited: ($l['unlimited'] ?? null) === true,
            lockoutLevel: $l['lockoutLevel'] ?? 0,
            blockedUntil: self::instant($l['blockedUntil'] ?? null),
            soft: ($l['soft'] ?? null) === true,
        );
    }

    /** An instant, which the API gives in microseconds. */
    private static function instant(?string $text): ?\DateTimeImmutable
    {
        return $text === null ? null : new \DateTimeImmutable($text);
    }

    private static function span(?string $text): ?float
    {
        return $text === null ? null : (float) rtrim($text, 's');
    }

    private static function seconds(float $span): string
    {
        return $span > 0 ? sprintf('%.6Fs', $span) : throw new StintError('invalid_argument', 'ttl: must be more than 0 seconds');
    }

    /** A random UUID (RFC 9562). */
    private static function newId(): string
    {
        $bytes = random_bytes(16);
        $bytes[6] = chr(ord($bytes[6]) & 0x0F | 0x40);
        $bytes[8] = chr(ord($bytes[8]) & 0x3F | 0x80);
        return vsprintf('%s%s-%s-%s-%s-%s%s%s', str_split(bin2hex($bytes), 4));
    }
}

/**
 * One address and its idle connection. It speaks HTTP/1.1 itself: PHP's own clients do not say whether a request was sent, and
 * curl sends a request again if a kept connection ends.
 *
 * @internal
 */
final class Node
{
    private string $address; // scheme, host and port
    private string $host;
    private string $remote;
    private string $path;
    /** @var ?array<string, mixed> */
    private ?array $tls;
    /** @var ?resource */
    private $idle = null;
    private int $owner = 0; // process of the idle connection: a fork must not read its parent's answers

    public function __construct(string $address, bool $token, array $tls)
    {
        $url = preg_match('/[\x00-\x20\x7f-\xff]/', $address) ? false : parse_url($address);
        $scheme = strtolower($url['scheme'] ?? '');
        if (!in_array($scheme, ['http', 'https'], true) || !isset($url['host']) || isset($url['query']) || isset($url['fragment'])) {
            throw new \InvalidArgumentException("stint: \"$address\" is no base URL, as http://127.0.0.1:7400 is");
        }
        $host = $url['host'];
        if (isset($url['user']) || isset($url['pass'])) {
            throw new \InvalidArgumentException("stint: the address of $host has a name or password: use a token");
        }
        if ($token && $scheme !== 'https' && !self::isLoopback(trim($host, '[]'))) {
            throw new \InvalidArgumentException("stint: the token is not sent in the clear to $host: "
                . 'use https://, or an address of this machine');
        }
        $this->host = isset($url['port']) ? "$host:{$url['port']}" : $host;
        $this->address = "$scheme://$this->host";
        $this->remote = "tcp://$host:" . ($url['port'] ?? ($scheme === 'https' ? 443 : 80));
        $this->path = rtrim($url['path'] ?? '', '/');
        $this->tls = $scheme === 'https' ? $tls + ['peer_name' => trim($host, '[]')] : null;
    }

    /** Seconds of a clock that never jumps. */
    public static function now(): float
    {
        return hrtime(true) / 1e9;
    }

    public function close(): void
    {
        if ($this->idle !== null) {
            fclose($this->idle);
            $this->idle = null;
        }
    }

    /** Sends a request of the API and returns its answer. */
    public function ask(string $path, string $body, array $headers, float $within): array
    {
        [$status, $text] = $this->exchange('POST', $path, $headers, $body, $within);
        $answer = json_decode($text, true);
        if ($status !== 200) {
            throw self::refused($status, $text, $answer);
        }
        return is_array($answer) ? $answer : throw new StintError('aborted', "$this->address sent an answer that is no JSON", true);
    }

    /**
     * Sends a request and returns status and body of the answer.
     *
     * @return array{int, string}
     */
    public function exchange(string $method, string $path, array $headers, string $body, float $within): array
    {
        $ends = self::now() + $within;
        $stream = $this->connected($ends);
        $head = "$method $this->path$path HTTP/1.1\r\nHost: $this->host\r\nContent-Length: " . strlen($body) . "\r\n";
        foreach ($headers as $name => $value) {
            $head .= "$name: $value\r\n";
        }
        try {
            $this->write($stream, "$head\r\n$body", $ends);
            [$status, $text, $keep] = $this->read($stream, $ends);
        } catch (StintError $error) {
            fclose($stream);
            throw $error;
        }
        if ($keep) {
            $this->idle = $stream;
            $this->owner = getmypid();
        } else {
            fclose($stream);
        }
        return [$status, $text];
    }

    /**
     * Returns a connection that no one else uses.
     *
     * @return resource
     */
    private function connected(float $ends)
    {
        $stream = $this->idle;
        $this->idle = null;
        if ($stream !== null) {
            if ($this->owner === getmypid() && !self::waited($stream, 0.0)) {
                return $stream;
            }
            fclose($stream); // the other end has closed it, or it belongs to the parent
        }
        $said = 'no connection in time';
        set_error_handler(function (int $_, string $text) use (&$said): bool {
            $said = $text;
            return true;
        });
        try {
            $context = stream_context_create($this->tls === null ? [] : ['ssl' => $this->tls]);
            $stream = stream_socket_client($this->remote, $number, $text, max(0.001, $ends - self::now()), STREAM_CLIENT_CONNECT, $context);
            if ($stream !== false) {
                stream_set_blocking($stream, false);
                if ($this->tls === null || self::secured($stream, $ends)) {
                    return $stream;
                }
                fclose($stream);
            }
        } finally {
            restore_error_handler();
        }
        // No request was sent: that includes a certificate that is not accepted.
        throw new StintError('unavailable', "$this->address cannot be reached: $said");
    }

    /** @param resource $stream */
    private static function secured($stream, float $ends): bool
    {
        $versions = STREAM_CRYPTO_METHOD_TLSv1_2_CLIENT | STREAM_CRYPTO_METHOD_TLSv1_3_CLIENT;
        while (($done = stream_socket_enable_crypto($stream, true, $versions)) === 0) {
            if (!self::waited($stream, $ends - self::now())) {
                return false;
            }
        }
        return $done === true;
    }

    /**
     * Waits until a connection can be read, or written. False: its time is over.
     *
     * @param resource $stream
     */
    private static function waited($stream, float $within, bool $toWrite = false): bool
    {
        $ends = self::now() + $within;
        do {
            $left = max(0, (int) (($ends - self::now()) * 1e6));
            $read = $toWrite ? [] : [$stream];
            $write = $toWrite ? [$stream] : [];
            $none = [];
            $found = @stream_select($read, $write, $none, intdiv($left, 1000000), $left % 1000000); // false: a signal came
        } while ($found === false && $left > 0);
        return $found !== false && $found > 0;
    }

    /** @param resource $stream */
    private function write($stream, string $data, float $ends): void
    {
        while ($data !== '') {
            $written = @fwrite($stream, $data);
            if ($written === false || $written === 0 && !self::waited($stream, $ends - self::now(), true)) {
                throw $this->unanswered('the request could not be sent');
            }
            $data = substr($data, $written);
        }
    }

    /**
     * Reads an answer: status, body, and whether the connection can be kept.
     *
     * @param resource $stream
     * @return array{int, string, bool}
     */
    private function read($stream, float $ends): array
    {
        $buffer = '';
        do { // an answer 1xx is not the last one
            $head = $this->upTo($stream, $buffer, "\r\n\r\n", $ends);
            if (!preg_match('#^HTTP/1\.([01]) (\d{3})\b#', $head, $line)) {
                throw $this->unanswered('no HTTP/1.1');
            }
        } while ($line[2] < '200');
        $keep = $line[1] === '1' && !preg_match('/^connection:[^\r\n]*\bclose\b/mi', $head);
        if (preg_match('/^transfer-encoding:[^\r\n]*\bchunked\b/mi', $head)) {
            $body = '';
            while (($length = $this->chunkLength($this->upTo($stream, $buffer, "\r\n", $ends))) > 0) {
                $body .= substr($this->bytes($stream, $buffer, $length + 2, $ends), 0, -2);
            }
            while ($this->upTo($stream, $buffer, "\r\n", $ends) !== '') {
                // a trailer
            }
        } elseif (preg_match('/^content-length:[ \t]*(\d{1,15})[ \t]*\r?$/mi', $head, $length)) {
            $body = $this->bytes($stream, $buffer, (int) $length[1], $ends);
        } else {
            throw $this->unanswered('an answer without a length');
        }
        return [(int) $line[2], $body, $keep && $buffer === ''];
    }

    private function chunkLength(string $line): int
    {
        return preg_match('/^([0-9a-f]{1,8})[ \t]*(;|$)/i', $line, $found) ? (int) hexdec($found[1]) : throw $this->unanswered('no chunk');
    }

    /**
     * Takes what stands before an end out of the buffer.
     *
     * @param resource $stream
     */
    private function upTo($stream, string &$buffer, string $end, float $ends): string
    {
        while (($at = strpos($buffer, $end)) === false) {
            $this->fill($stream, $buffer, $ends);
        }
        $taken = substr($buffer, 0, $at);
        $buffer = substr($buffer, $at + strlen($end));
        return $taken;
    }

    /**
     * Takes bytes out of the buffer.
     *
     * @param resource $stream
     */
    private function bytes($stream, string &$buffer, int $length, float $ends): string
    {
        while (strlen($buffer) < $length) {
            $this->fill($stream, $buffer, $ends);
        }
        $taken = substr($buffer, 0, $length);
        $buffer = substr($buffer, $length);
        return $taken;
    }

    /**
     * Reads first and waits then: what TLS has decrypted is not seen by a wait.
     *
     * @param resource $stream
     */
    private function fill($stream, string &$buffer, float $ends): void
    {
        while (($more = @fread($stream, 65536)) === '' || $more === false) {
            if ($more === false || feof($stream)) {
                throw $this->unanswered('the connection ended');
            }
            if (!self::waited($stream, $ends - self::now())) {
                throw $this->unanswered('its time is over');
            }
        }
        $buffer .= $more;
    }

    private function unanswered(string $why): StintError
    {
        return new StintError('aborted', "$this->address gave no answer: $why", true);
    }

    /** The error of an answer that is not 200. */
    private static function refused(int $status, string $text, mixed $answer): StintError
    {
        foreach (is_array($answer['details'] ?? null) && is_string($answer['code'] ?? null) ? $answer['details'] : [] as $detail) {
            if (($detail['type'] ?? null) === 'stint.v1.Failure' && is_string($detail['value'] ?? null)) {
                $message = is_string($answer['message'] ?? null) ? $answer['message'] : '';
                return new StintError($answer['code'], $message, self::maybeApplied($detail['value']));
            }
        }
        return new StintError('aborted', "an answer $status that is not stint's: " . substr($text, 0, 200), true);
    }

    /** Field 3 of a stint.v1.Failure in protobuf, base64. What cannot be read may have been applied. */
    private static function maybeApplied(string $value): bool
    {
        $data = base64_decode($value, true);
        if ($data === false) {
            return true;
        }
        for ($at = 0; $at < strlen($data);) {
            $tag = self::varint($data, $at);
            $number = self::varint($data, $at);
            if ($tag === 3 << 3) {
                return $number !== 0;
            }
            if ($tag === null || $number === null || ($tag & 7) !== 2) {
                return true; // no field of a Failure
            }
            $at += $number;
        }
        return $at !== strlen($data);
    }

    /** null: the data ends within the number. */
    private static function varint(string $data, int &$at): ?int
    {
        for ($value = $shift = 0; $at < strlen($data) && $shift < 63; $shift += 7) {
            $byte = ord($data[$at++]);
            $value |= ($byte & 127) << $shift;
            if ($byte < 128) {
                return $value;
            }
        }
        return null;
    }

    private static function isLoopback(string $host): bool
    {
        $bytes = $host === 'localhost' ? "\x7f\0\0\1" : (string) @inet_pton($host);
        $mapped = str_repeat("\0", 10) . "\xff\xff";
        if (strlen($bytes) === 16 && str_starts_with($bytes, $mapped)) {
            $bytes = substr($bytes, 12);
        }
        return strlen($bytes) === 4 ? $bytes[0] === "\x7f" : $bytes === str_repeat("\0", 15) . "\1";
    }
}
