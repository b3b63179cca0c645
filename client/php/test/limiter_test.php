<?php

/** The limiter of Symfony beside a real node. */

declare(strict_types=1);

require '/usr/share/php/Symfony/Component/RateLimiter/autoload.php';
require __DIR__ . '/harness.php';
require __DIR__ . '/../StintLimiter.php';

use Stint\StintError;
use Stint\StintLimiter;
use Symfony\Component\RateLimiter\CompoundLimiter;
use Symfony\Component\RateLimiter\Exception\RateLimitExceededException;
use Symfony\Component\RateLimiter\Exception\ReserveNotSupportedException;

$node = node();
$limits = client([$node]);

test('exactly five are accepted, and a look counts nothing', function () use ($limits) {
    $limiter = new StintLimiter($limits, 'five', 'sf five');
    for ($i = 1; $i <= 5; $i++) {
        $limit = $limiter->consume();
        same([true, 5 - $i, 5], [$limit->isAccepted(), $limit->getRemainingTokens(), $limit->getLimit()]);
        $limit = $limiter->consume(0);
        same([true, 5 - $i, 5], [$limit->isAccepted(), $limit->getRemainingTokens(), $limit->getLimit()]);
    }
    $limit = $limiter->consume();
    same([false, 0, '9999'], [$limit->isAccepted(), $limit->getRemainingTokens(), $limit->getRetryAfter()->format('Y')]);
    fails(fn () => $limit->ensureAccepted(), RateLimitExceededException::class);
});

test('all tokens or none', function () use ($limits) {
    $limiter = new StintLimiter($limits, 'five', ['user' => 'sf {all}']);
    same([3, false, 3, true], [$limiter->consume(2)->getRemainingTokens(), ($more = $limiter->consume(4))->isAccepted(),
        $limiter->consume(0)->getRemainingTokens(), $limiter->consume(3)->isAccepted()]);
    same(3, $more->getRemainingTokens(), 'fewer would fit:');
    same(5, $limits->get(['policy' => 'five', 'key' => 'user=sf %7Ball%7D'])[0]->used);
});

test('the wait of a denial, and a reset', function () use ($limits) {
    $limiter = new StintLimiter($limits, 'window', 'sf wait');
    same(true, $limiter->consume(3)->isAccepted());
    $limit = $limiter->consume();
    $wait = $limit->getRetryAfter()->getTimestamp() - time();
    same([false, true], [$limit->isAccepted(), 0 < $wait && $wait <= 86401]);
    $limiter->reset();
    same([true, 2], [($limit = $limiter->consume())->isAccepted(), $limit->getRemainingTokens()]);
});

test('a key that is blocked has nothing left', function () use ($limits) {
    for ($i = 0; $i < 3; $i++) {
        $limits->settle($limits->reserve(['policy' => 'login', 'key' => 'sf blocked']), 'failed');
    }
    $limiter = new StintLimiter($limits, 'login', 'sf blocked');
    same([0, false], [$limiter->consume(0)->getRemainingTokens(), $limiter->consume()->isAccepted()]);
    $limit = ['policy' => 'login', 'limit' => 'account', 'quota' => '5', 'remaining' => '2', 'allowed' => true];
    $servers = new Servers([['status' => 200, 'body' => ['decision' => ['deniedBy' => ['login/account'], 'limits' => [$limit]]]]]);
    $limiter = new StintLimiter(client($servers->urls), 'login', 'sf blocked');
    foreach ([0, 1] as $tokens) {
        $limit = $limiter->consume($tokens);
        same([0, $tokens === 0, 5], [$limit->getRemainingTokens(), $limit->isAccepted(), $limit->getLimit()]);
    }
});

test('a key that is blocked is denied, though none of its limits can deny', function () {
    $watches = ['policy' => 'login', 'limit' => 'account', 'quota' => '5', 'remaining' => '2', 'allowed' => true];
    foreach ([['shadow' => true], ['unlimited' => true]] as $never) {
        $servers = new Servers([['status' => 200, 'body' => ['decision' => ['limits' => [$watches + $never]]]]]);
        $limiter = new StintLimiter(client($servers->urls), 'login', 'k');
        foreach ([0, 1] as $tokens) {
            $limit = $limiter->consume($tokens);
            same([$tokens === 0, 0, '9999'], [$limit->isAccepted(), $limit->getRemainingTokens(), $limit->getRetryAfter()->format('Y')]);
        }
    }
});

test('beside other limiters', function () use ($limits) {
    $compound = new CompoundLimiter([new StintLimiter($limits, 'five', 'sf both'), new StintLimiter($limits, 'window', 'sf both')]);
    same([true, true, true, false], array_map(fn () => $compound->consume()->isAccepted(), range(1, 4)));
});

test('no decision by the fail mode, and a mistake is never accepted', function () use ($limits) {
    $said = fn (string $message, string $code) => (new Servers([['status' => 500, 'body' => ['code' => $code, 'message' => $message,
        'details' => [['type' => 'stint.v1.Failure', 'value' => '']]]]]))->urls;
    $undecided = client($said('cannot decide', 'internal'));
    $heard = [];
    $hear = function (StintError $error) use (&$heard) {
        $heard[] = $error->rpcCode;
    };
    foreach ([0, 1] as $tokens) {
        fails(fn () => (new StintLimiter($undecided, 'five', 'k', onError: $hear))->consume($tokens));
        $limit = (new StintLimiter($undecided, 'five', 'k', 'open', $hear))->consume($tokens);
        same([true, PHP_INT_MAX], [$limit->isAccepted(), $limit->getRemainingTokens()]);
    }
    $full = client($said('policy "five" has max_keys keys: it takes no new one until old ones end', 'unavailable'));
    same(true, fails(fn () => (new StintLimiter($full, 'five', 'k', 'open', $hear))->consume())->noRoom);
    same(['internal', 'internal', 'internal', 'internal', 'unavailable'], $heard);
    same('not_found', fails(fn () => (new StintLimiter($limits, 'nope', 'k', 'open', $hear))->consume())->rpcCode);
});

test('what would be a trap is refused', function () use ($limits) {
    foreach (['', null, []] as $key) {
        fails(fn () => new StintLimiter($limits, 'five', $key), InvalidArgumentException::class);
    }
    fails(fn () => new StintLimiter($limits, 'five', 'k', 'maybe'), InvalidArgumentException::class);
    fails(fn () => (new StintLimiter($limits, 'five', 'k'))->reserve(), ReserveNotSupportedException::class);
    fails(fn () => (new StintLimiter($limits, 'five', 'k'))->consume(-1));
});
