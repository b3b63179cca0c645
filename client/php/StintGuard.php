<?php

declare(strict_types=1);

namespace Stint;

/** What the middlewares do with a request: how it is answered, or that it goes on. It throws what no fail mode may hide. */
final class StintGuard
{
    private const TITLES = [400 => 'Bad request', 403 => 'Forbidden', 429 => 'Too many requests', 503 => 'Service unavailable'];
    private const PROBLEMS = 'https://iana.org/assignments/http-problem-types#';
    private const UNDECIDED = 'The request was not carried out, since its limits could not be checked. Try again.';

    /**
     * key: makes a text of a request, or parts by name, escaped as Stint::safeKey does; null: 400. fail, while the cluster gives no
     * decision: "closed" answers 503, "open" lets the request go on with the header Stint-Failed: open. onError hears every failure to
     * decide. timeout: seconds, in place of the client's.
     */
    public function __construct(
        private readonly Stint $limits,
        private readonly string $policy,
        private readonly \Closure $key,
        private readonly string $fail,
        private readonly ?\Closure $onError = null,
        private readonly ?float $timeout = null,
    ) {
        if (!in_array($fail, ['closed', 'open'], true)) {
            throw new \InvalidArgumentException('stint: fail must be "closed" or "open"');
        }
    }

    /** @return array{int, array<string, string>, string, ?Decision} status (0: the request goes on), headers, body, decision */
    public function __invoke(mixed $request): array
    {
        $key = Stint::safeKey(($this->key)($request));
        if ($key === null) {
            return self::refusal(400, "The request does not say whom it counts for ($this->policy).");
        }
        try {
            $decision = $this->limits->check(['policy' => $this->policy, 'key' => $key], timeout: $this->timeout);
        } catch (StintError $error) {
            if ($error->unknownKey) {
                return self::refusal(403, 'The sender is not known.');
            }
            if (!$error->noDecision && !$error->noRoom) {
                throw $error;
            }
            $this->onError === null || ($this->onError)($error);
            $opens = $this->fail === 'open' && !$error->noRoom;
            return $opens ? [0, ['Stint-Failed' => 'open'], '', null] : self::refusal(503, self::UNDECIDED, ['Retry-After' => '1']);
        }
        return $decision->allowed ? [0, $decision->headers, '', $decision]
            : self::refusal($decision->challenge ? 403 : 429, $decision->reason, $decision->headers, $decision);
    }

    /** An answer of RFC 9457. No cache may keep it (RFC 6585). */
    private static function refusal(int $status, string $detail, array $headers = [], ?Decision $decision = null): array
    {
        $body = ['type' => 'about:blank', 'title' => self::TITLES[$status], 'status' => $status, 'detail' => $detail];
        if ($decision?->challenge) {
            $body = ['type' => 'urn:stint:problem:challenge', 'title' => 'Challenge required', 'code' => 'challenge'] + $body;
        } elseif ($decision !== null) {
            $body = ['type' => self::PROBLEMS . 'quota-exceeded', 'violated-policies' => $decision->deniedBy] + $body;
        } elseif ($status === 503) {
            $body = ['type' => self::PROBLEMS . 'temporary-reduced-capacity'] + $body;
        }
        $headers += ['Cache-Control' => 'no-store', 'Content-Type' => 'application/problem+json'];
        return [$status, $headers, json_encode(array_filter($body, fn ($field) => $field !== ''), \JSON_THROW_ON_ERROR), $decision];
    }
}
