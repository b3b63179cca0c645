package stint;

import jakarta.servlet.Filter;
import jakarta.servlet.FilterChain;
import jakarta.servlet.ServletException;
import jakarta.servlet.ServletRequest;
import jakarta.servlet.ServletResponse;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.ToLongFunction;

/**
 * A servlet filter that counts a request before the application sees it. The attribute "stint" of the request is the decision.
 *
 * <pre>
 *   new StintFilter(limits, StintFilter.Fail.OPEN).count("per-ip", StintFilter.clientIp("10.0.0.5"))
 * </pre>
 */
public final class StintFilter implements Filter {
    /** What happens while the cluster gives no decision: 503, or the request passes with the header Stint-Failed: open. */
    public enum Fail { CLOSED, OPEN }

    /** What happens to a request without a key: 400, it is not counted by this policy, or all such requests share a key. */
    public enum Missing { DENY, SKIP, SHARED }

    private record Rule(String policy, Function<HttpServletRequest, String> key, ToLongFunction<HttpServletRequest> cost) {
    }

    private static final String PROBLEMS = "https://iana.org/assignments/http-problem-types#";
    private static final String EXPOSE = "Access-Control-Expose-Headers";

    private final Stint limits;
    private final Fail fail;
    private final List<Rule> rules = new ArrayList<>();
    private Missing missing = Missing.DENY;
    private Consumer<Stint.Failure> onError = failure -> { };
    private Duration timeout;
    private boolean ids = true;

    public StintFilter(Stint limits, Fail fail) {
        this.limits = limits;
        this.fail = fail;
    }

    /** Counts requests by a policy, one unit each. All policies are one decision. The key is escaped as Stint.safeKey does. */
    public StintFilter count(String policy, Function<HttpServletRequest, String> key) {
        return count(policy, key, request -> 1);
    }

    public StintFilter count(String policy, Function<HttpServletRequest, String> key, ToLongFunction<HttpServletRequest> cost) {
        rules.add(new Rule(policy, request -> Stint.safeKey(key.apply(request)), cost));
        return this;
    }

    /** Counts under a key of parts by name. */
    public StintFilter countParts(String policy, Function<HttpServletRequest, Map<String, String>> key) {
        rules.add(new Rule(policy, request -> Stint.safeKey(key.apply(request)), request -> 1));
        return this;
    }

    public StintFilter onMissing(Missing what) {
        missing = what;
        return this;
    }

    /** Hears every failure to decide, for a metric. */
    public StintFilter onError(Consumer<Stint.Failure> hears) {
        onError = hears;
        return this;
    }

    /** How long a request waits for its decision; the client's by default. */
    public StintFilter timeout(Duration most) {
        timeout = most;
        return this;
    }

    /** Sends no ids: nodes then repeat the denials of a policy with deny_cache, and what may have been counted is not repeated. */
    public StintFilter withoutIds() {
        ids = false;
        return this;
    }

    /** A key function for the address of the client. */
    public static Function<HttpServletRequest, String> clientIp(String... trustedProxies) {
        Stint.ClientIp of = new Stint.ClientIp(trustedProxies);
        return request -> of.key(request.getRemoteAddr(), Collections.list(request.getHeaders("X-Forwarded-For")));
    }

    /** Throws what no fail mode may hide: an unknown policy, a token that does not allow it, a key function that fails. */
    @Override
    public void doFilter(ServletRequest any, ServletResponse answer, FilterChain next) throws IOException, ServletException {
        if (rules.isEmpty()) {
            throw new IllegalStateException("stint: the filter counts nothing: name a policy");
        }
        HttpServletRequest request = (HttpServletRequest) any;
        HttpServletResponse response = (HttpServletResponse) answer;
        List<Stint.Entry> entries = new ArrayList<>();
        for (Rule rule : rules) {
            String key = rule.key.apply(request);
            if (key == null && missing == Missing.DENY) {
                refuse(response, 400, "about:blank", "Bad request", "The request does not say whom it counts for (" + rule.policy + ").", Map.of());
                return;
            }
            if (key != null || missing == Missing.SHARED) {
                entries.add(Stint.entry(rule.policy, key == null ? "shared" : key).withCost(rule.cost.applyAsLong(request)));
            }
        }
        if (entries.isEmpty() || passes(request, response, entries)) {
            next.doFilter(request, response);
        }
    }

    /** Decides, and answers a request that does not pass. */
    private boolean passes(HttpServletRequest request, HttpServletResponse response, List<Stint.Entry> entries) throws IOException {
        Stint.Options options = new Stint.Options().timeout(timeout);
        Stint.Decision decision;
        try {
            decision = limits.check(entries, ids ? options : options.idempotencyId(null));
        } catch (Stint.Failure failure) {
            return undecided(response, failure);
        }
        decision.headers().forEach(response::setHeader);
        if (!decision.headers().isEmpty()) {
            response.addHeader(EXPOSE, String.join(", ", decision.headers().keySet()));
        }
        request.setAttribute("stint", decision);
        if (!decision.allowed()) {
            Map<String, Object> more = new LinkedHashMap<>();
            if (decision.challenge()) {
                more.put("code", "challenge");
            }
            more.put("violated-policies", decision.deniedBy());
            refuse(response, decision.challenge() ? 403 : 429, decision.challenge() ? "urn:stint:problem:challenge" : PROBLEMS + "quota-exceeded",
                    decision.challenge() ? "Challenge required" : "Too many requests", decision.reason(), more);
        }
        return decision.allowed();
    }

    private boolean undecided(HttpServletResponse response, Stint.Failure failure) throws IOException {
        if (failure.unknownKey()) {
            refuse(response, 403, "about:blank", "Forbidden", "The sender is not known.", Map.of());
            return false;
        }
        if (!failure.noDecision() && !failure.noRoom()) {
            throw failure;
        }
        onError.accept(failure);
        if (fail == Fail.OPEN && !failure.noRoom()) {
            response.setHeader("Stint-Failed", "open");
            return true;
        }
        response.setHeader("Retry-After", "1");
        response.addHeader(EXPOSE, "Retry-After");
        refuse(response, 503, PROBLEMS + "temporary-reduced-capacity", "Service unavailable",
                "The request was not carried out, since its limits could not be checked. Try again.", Map.of());
        return false;
    }

    /** An answer of RFC 9457. No cache may keep it (RFC 6585). */
    private static void refuse(HttpServletResponse response, int status, String type, String title, String detail, Map<String, ?> more)
            throws IOException {
        Map<String, Object> body = new LinkedHashMap<>(Map.of("type", type, "title", title, "status", status));
        if (!detail.isEmpty()) {
            body.put("detail", detail);
        }
        body.putAll(more);
        response.setStatus(status);
        response.setHeader("Cache-Control", "no-store");
        response.setContentType("application/problem+json");
        response.getOutputStream().write(Stint.Json.write(body).getBytes(StandardCharsets.UTF_8));
    }
}
