<?php

/** The cases that the clients of all languages pass: client/testdata/cases.json says what its fields are. */

declare(strict_types=1);

require __DIR__ . '/harness.php';

use Stint\Stint;
use Stint\StintError;

/** Makes the case's call, and returns the part of the answer that the case may want. */
function answerOf(Stint $limits, array $do): array
{
    $id = $do['id'] ?? null;
    try {
        return match ($do['op']) {
            'get' => ['limits' => $limits->get($do['entries'])],
            'settle' => ['decision' => $limits->settle($do['holdId'] ?? '', $do['action'], decisionId: $do['decisionId'] ?? '')],
            'reserve' => ['decision' => $limits->reserve($do['entries'], $do['ttlMs'] / 1000, idempotencyId: $id)],
            'check' => ['decision' => $limits->check($do['entries'], idempotencyId: $id)],
        };
    } catch (StintError $error) {
        return ['error' => $error];
    }
}

/** Keeps of an answer what the case names. */
function named(mixed $want, mixed $got): mixed
{
    if (!is_array($want) || is_array($got) && array_is_list($want) && count($want) !== count($got)) {
        return $got;
    }
    $kept = [];
    foreach ($want as $name => $value) {
        $name = $name === 'code' ? 'rpcCode' : $name;
        $kept[$name === 'rpcCode' ? 'code' : $name] = named($value, is_array($got) ? $got[$name] ?? null : $got->$name);
    }
    return $kept;
}

foreach (json_decode(file_get_contents(ROOT . '/client/testdata/cases.json'), true)['cases'] as $case) {
    test($case['name'], function () use ($case) {
        $servers = new Servers($case['answers'], $case['nodes'] ?? 1);
        $refused = array_map(fn () => refused(), array_fill(0, $case['refused'] ?? 0, null));
        $limits = new Stint([...$refused, ...$servers->urls], timeout: ($case['timeoutMs'] ?? 120000) / 1000);
        same($case['want'], named($case['want'], answerOf($limits, $case['do'])));
        $requests = $servers->requests();
        same($case['asked'], count($requests), 'requests:');
        foreach ($requests as [, $body]) {
            same($requests[0][1], $body, 'a request that is sent again:');
        }
    });
}
