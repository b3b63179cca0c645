package stint;

import java.util.HashMap;
import java.util.Map;
import java.util.function.Consumer;
import org.springframework.cloud.gateway.filter.ratelimit.RateLimiter;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/**
 * A RateLimiter of Spring Cloud Gateway that counts requests by a policy, under the keys of a route's KeyResolver. A bean for each
 * policy; a route names it as {@code rate-limiter: "#{@login}"}.
 *
 * <p>While the cluster gives no decision a request fails with the Failure, or with Fail.OPEN passes with the header Stint-Failed: open. A
 * key without room and a mistake, such as an unknown policy, fail in both modes.
 */
public final class StintRateLimiter implements RateLimiter<Object> {
    private final Map<String, Object> config = new HashMap<>(); // routes have none
    private final Stint limits;
    private final String policy;
    private final StintFilter.Fail fail;
    private final Consumer<Stint.Failure> onError;

    /** onError hears every failure to decide. */
    public StintRateLimiter(Stint limits, String policy, StintFilter.Fail fail, Consumer<Stint.Failure> onError) {
        this.limits = limits;
        this.policy = policy;
        this.fail = fail;
        this.onError = onError;
    }

    @Override
    public Mono<Response> isAllowed(String routeId, String key) {
        return Mono.fromCallable(() -> decide(key)).subscribeOn(Schedulers.boundedElastic()); // the call blocks
    }

    private Response decide(String key) {
        try {
            Stint.Decision decision = limits.check(Stint.entry(policy, Stint.safeKey(key)));
            return new Response(decision.allowed(), decision.headers());
        } catch (Stint.Failure failure) {
            if (failure.noDecision() || failure.noRoom()) {
                onError.accept(failure);
            }
            if (!failure.noDecision() || fail == StintFilter.Fail.CLOSED) {
                throw failure;
            }
            return new Response(true, Map.of("Stint-Failed", "open"));
        }
    }

    @Override
    public Map<String, Object> getConfig() {
        return config;
    }

    @Override
    public Class<Object> getConfigClass() {
        return Object.class;
    }

    @Override
    public Object newConfig() {
        return new Object();
    }
}
