<?php

declare(strict_types=1);

namespace Stint;

use Symfony\Component\RateLimiter\Exception\ReserveNotSupportedException;
use Symfony\Component\RateLimiter\LimiterInterface;
use Symfony\Component\RateLimiter\RateLimit;
use Symfony\Component\RateLimiter\Reservation;

/**
 * A limiter of Symfony's RateLimiter that counts one key by a policy.
 *
 *     $limit = (new StintLimiter($limits, 'login', $email))->consume();
 *
 * consume(0) counts nothing and says what remains. reset needs a token that may adjust. reserve is not there: a wait that is
 * promised now would be a count that nobody has made.
 */
final class StintLimiter implements LimiterInterface
{
    private readonly string $key;

    /**
     * key: a text or parts by name, escaped as Stint::safeKey does. fail, while the cluster gives no decision: "closed" throws
     * the StintError, "open" accepts; a key without room and a mistake are thrown in both modes. onError hears every failure to
     * decide. timeout: seconds, in place of the client's.
     *
     * @param string|array<string, ?string>|null $key
     */
    public function __construct(
        private readonly Stint $limits,
        private readonly string $policy,
        string|array|null $key,
        private readonly string $fail = 'closed',
        private readonly ?\Closure $onError = null,
        private readonly ?float $timeout = null,
    ) {
        if (!in_array($fail, ['closed', 'open'], true)) {
            throw new \InvalidArgumentException('stint: fail must be "closed" or "open"');
        }
        $this->key = Stint::safeKey($key) ?? throw new \InvalidArgumentException("stint: the key of policy $policy is missing or empty");
    }

    public function consume(int $tokens = 1): RateLimit
    {
        $entry = ['policy' => $this->policy, 'key' => $this->key];
        try {
            $decision = $tokens === 0
                ? $this->limits->check($entry, mode: 'peek', idempotencyId: null, timeout: $this->timeout)
                : $this->limits->check($entry + ['cost' => $tokens], timeout: $this->timeout);
        } catch (StintError $error) {
            if (($error->noDecision || $error->noRoom) && $this->onError !== null) {
                ($this->onError)($error);
            }
            if (!$error->noDecision || $this->fail === 'closed') {
                throw $error;
            }
            return self::unlimited();
        }
        return self::stateOf($decision, $tokens === 0);
    }

    public function reset(): void
    {
        $this->limits->adjust($this->policy, $this->key, 'reset', timeout: $this->timeout);
    }

    public function reserve(int $tokens = 1, ?float $maxTime = null): Reservation
    {
        throw new ReserveNotSupportedException(self::class);
    }

    /** A look is always accepted, as Symfony's own limiters do; a key that is denied or blocked has nothing left. */
    private static function stateOf(Decision $decision, bool $look): RateLimit
    {
        $counted = array_filter($decision->limits, fn (LimitStatus $limit) => !$limit->shadow && !$limit->unlimited);
        usort($counted, fn (LimitStatus $a, LimitStatus $b) => $a->remaining <=> $b->remaining);
        if ($counted === [] && $decision->allowed) {
            return self::unlimited();
        }
        $room = $decision->allowed || array_filter($counted, fn (LimitStatus $limit) => !$limit->allowed) !== []; // else a block denies
        $remaining = $room ? $counted[0]->remaining : 0;
        $wait = $decision->allowed ? 0.0 : $decision->retryAfter;
        $at = $wait === null ? new \DateTimeImmutable('9999-12-31T23:59:59Z') // no wait helps
            : new \DateTimeImmutable(sprintf('@%.6F', microtime(true) + $wait));
        return new RateLimit($remaining, $at, $look || $decision->allowed, $counted[0]->quota ?? 0);
    }

    private static function unlimited(): RateLimit
    {
        return new RateLimit(\PHP_INT_MAX, new \DateTimeImmutable(), true, \PHP_INT_MAX);
    }
}
