<?php

declare(strict_types=1);

namespace Stint;

use Illuminate\Http\Response;

/** A middleware of Laravel that counts a request before its route runs, with the Decision as the attribute "stint". */
final class StintThrottle
{
    public function __construct(private readonly StintGuard $guard)
    {
    }

    public function handle(mixed $request, \Closure $next): mixed
    {
        [$status, $headers, $body, $decision] = ($this->guard)($request);
        if ($status !== 0) {
            return new Response($body, $status, $headers);
        }
        $request->attributes->set('stint', $decision);
        $response = $next($request);
        foreach ($headers as $name => $value) {
            $response->headers->set($name, $value);
        }
        return $response;
    }
}
