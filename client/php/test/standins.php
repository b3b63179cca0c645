<?php

/** As much of the interfaces of PSR-7, PSR-15 and PSR-17, and of Laravel, as the middlewares use. */

declare(strict_types=1);

namespace Psr\Http\Message {
    interface StreamInterface
    {
        public function write(string $string): int;
    }
    interface ResponseInterface
    {
        public function withHeader(string $name, string $value): static;
        public function getBody(): StreamInterface;
    }
    interface ServerRequestInterface
    {
        public function withAttribute(string $name, mixed $value): static;
    }
    interface ResponseFactoryInterface
    {
        public function createResponse(int $code = 200): ResponseInterface;
    }
}

namespace Psr\Http\Server {
    use Psr\Http\Message\ResponseInterface;
    use Psr\Http\Message\ServerRequestInterface;

    interface RequestHandlerInterface
    {
        public function handle(ServerRequestInterface $request): ResponseInterface;
    }
    interface MiddlewareInterface
    {
        public function process(ServerRequestInterface $request, RequestHandlerInterface $handler): ResponseInterface;
    }
}

namespace Illuminate\Http {
    /** Headers or attributes. */
    class Bag
    {
        public function __construct(public array $all = [])
        {
        }
        public function set(string $name, mixed $value): void
        {
            $this->all[$name] = $value;
        }
    }
    class Request
    {
        public Bag $attributes;

        public function __construct(public string $user)
        {
            $this->attributes = new Bag();
        }
    }
    class Response
    {
        public Bag $headers;

        public function __construct(public string $content, public int $status = 200, array $headers = [])
        {
            $this->headers = new Bag($headers);
        }
    }
}

namespace {
    use Psr\Http\Message\ResponseFactoryInterface;
    use Psr\Http\Message\ResponseInterface;
    use Psr\Http\Message\ServerRequestInterface;
    use Psr\Http\Message\StreamInterface;
    use Psr\Http\Server\RequestHandlerInterface;

    class Message implements ResponseInterface, ServerRequestInterface, StreamInterface
    {
        public array $headers = [];
        public array $attributes = [];
        public string $content = '';

        public function __construct(public string $user = '', public int $status = 200)
        {
        }
        public function withHeader(string $name, string $value): static
        {
            $new = clone $this;
            $new->headers[$name] = $value;
            return $new;
        }
        public function withAttribute(string $name, mixed $value): static
        {
            $new = clone $this;
            $new->attributes[$name] = $value;
            return $new;
        }
        public function getBody(): StreamInterface
        {
            return $this;
        }
        public function write(string $string): int
        {
            $this->content .= $string;
            return strlen($string);
        }
    }

    /** An application whose answer is what it was told of the decision. */
    class Application implements RequestHandlerInterface, ResponseFactoryInterface
    {
        public function handle(ServerRequestInterface $request): ResponseInterface
        {
            $response = new Message();
            $response->write(json_encode($request->attributes['stint']?->limits[0]->used));
            return $response;
        }
        public function createResponse(int $code = 200): ResponseInterface
        {
            return new Message(status: $code);
        }
    }
}
