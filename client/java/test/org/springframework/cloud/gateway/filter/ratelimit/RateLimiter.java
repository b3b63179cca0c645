package org.springframework.cloud.gateway.filter.ratelimit;

import java.util.Map;
import org.springframework.cloud.gateway.support.StatefulConfigurable;
import reactor.core.publisher.Mono;

/** A stand-in with the members that are used. */
public interface RateLimiter<C> extends StatefulConfigurable<C> {
    Mono<Response> isAllowed(String routeId, String id);

    class Response {
        public final boolean allowed;
        public final Map<String, String> headers;

        public Response(boolean allowed, Map<String, String> headers) {
            this.allowed = allowed;
            this.headers = headers;
        }
    }
}
