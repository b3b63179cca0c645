<?php

/** The middlewares beside a real node, with stand-ins of PSR and Laravel, which Debian does not have. */

declare(strict_types=1);

require __DIR__ . '/harness.php';
require __DIR__ . '/standins.php';
require __DIR__ . '/../StintGuard.php';
require __DIR__ . '/../StintMiddleware.php';
require __DIR__ . '/../StintThrottle.php';

use Illuminate\Http\Request;
use Illuminate\Http\Response;
use Stint\Stint;
use Stint\StintError;
use Stint\StintGuard;
use Stint\StintMiddleware;
use Stint\StintThrottle;

$limits = client([node()]);

/** Asks both middlewares for a user, and returns what they answer: status, headers, content. */
function answers(Stint $limits, string $policy, string $user, string $fail = 'closed', ?Closure $onError = null): array
{
    $guard = new StintGuard($limits, $policy, fn ($request) => $request->user, $fail, $onError);
    $app = new Application();
    $psr = (new StintMiddleware($guard, $app))->process(new Message($user), $app);
    $laravel = (new StintThrottle($guard))->handle(new Request($user),
        fn ($request) => new Response(json_encode($request->attributes->all['stint']?->limits[0]->used)));
    return [[$psr->status, $psr->headers, $psr->content], [$laravel->status, $laravel->headers->all, $laravel->content]];
}

test('both count together, and a denial is a 429 of RFC 9457', function () use ($limits) {
    foreach ([[1, 2], [3, 4]] as $want) {
        $answers = answers($limits, 'five', 'mw ann');
        same([[200, (string) $want[0]], [200, (string) $want[1]]], array_map(fn ($a) => [$a[0], $a[2]], $answers));
        same(true, isset($answers[0][1]['RateLimit'], $answers[1][1]['RateLimit']), 'the headers of the policy');
    }
    [$last, $denied] = answers($limits, 'five', 'mw ann');
    same([200, 429, 'no-store', 'application/problem+json'], [$last[0], $denied[0], $denied[1]['Cache-Control'], $denied[1]['Content-Type']]);
    same([429, ['five/ever']], [($body = json_decode($denied[2], true))['status'], $body['violated-policies']]);
    $limits->check(['policy' => 'soft', 'key' => 'mw soft']);
    foreach (answers($limits, 'soft', 'mw soft') as [$status, , $content]) {
        same([403, 'challenge'], [$status, json_decode($content, true)['code']]);
    }
});

test('no key, an unknown key, and no decision', function () use ($limits) {
    foreach ([['five', '', 400], ['known', 'mw stranger', 403]] as [$policy, $user, $want]) {
        same([$want, $want], array_column(answers($limits, $policy, $user, 'open'), 0));
    }
    $undecided = ['status' => 500, 'body' => ['code' => 'internal', 'message' => 'cannot decide',
        'details' => [['type' => 'stint.v1.Failure', 'value' => '']]]];
    $errors = [];
    $hear = function (StintError $error) use (&$errors) {
        $errors[] = $error;
    };
    $nowhere = client((new Servers([$undecided, $undecided, $undecided, $undecided]))->urls);
    $problem = ['type' => 'https://iana.org/assignments/http-problem-types#temporary-reduced-capacity', 'title' => 'Service unavailable', 'status' => 503,
        'detail' => 'The request was not carried out, since its limits could not be checked. Try again.'];
    foreach (answers($nowhere, 'five', 'mw ann', 'closed', $hear) as [$status, $headers, $content]) {
        same([503, '1', $problem], [$status, $headers['Retry-After'], json_decode($content, true)]);
    }
    foreach (answers($nowhere, 'five', 'mw ann', 'open', $hear) as [$status, $headers, $content]) {
        same([200, 'open', 'null'], [$status, $headers['Stint-Failed'], $content]);
    }
    same(4, count($errors));
    fails(fn () => answers($limits, 'nope', 'mw ann', 'open'), StintError::class);
    fails(fn () => new StintGuard($limits, 'five', fn () => 'x', 'maybe'), InvalidArgumentException::class);
});
