<?php

declare(strict_types=1);

namespace Stint;

use Psr\Http\Message\ResponseFactoryInterface;
use Psr\Http\Message\ResponseInterface;
use Psr\Http\Message\ServerRequestInterface;
use Psr\Http\Server\MiddlewareInterface;
use Psr\Http\Server\RequestHandlerInterface;

/** A middleware of PSR-15 that counts a request before its handler sees it, with the Decision as the attribute "stint". */
final class StintMiddleware implements MiddlewareInterface
{
    public function __construct(private readonly StintGuard $guard, private readonly ResponseFactoryInterface $responses)
    {
    }

    public function process(ServerRequestInterface $request, RequestHandlerInterface $handler): ResponseInterface
    {
        [$status, $headers, $body, $decision] = ($this->guard)($request);
        $response = $status === 0 ? $handler->handle($request->withAttribute('stint', $decision)) : $this->responses->createResponse($status);
        foreach ($headers as $name => $value) {
            $response = $response->withHeader($name, $value);
        }
        if ($status !== 0) {
            $response->getBody()->write($body);
        }
        return $response;
    }
}
