package stint;

import static stint.Harness.client;
import static stint.Harness.holds;
import static stint.Harness.same;
import static stint.Harness.test;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.springframework.cloud.gateway.filter.ratelimit.RateLimiter.Response;

/** The limiter for Spring Cloud Gateway beside a real node, with stand-ins of Spring and Reactor, which Debian does not have. */
final class RateLimiterTest {
    private static final List<Stint.Failure> errors = new ArrayList<>();

    private static Response ask(Stint limits, String policy, StintFilter.Fail fail, String key) throws Exception {
        return new StintRateLimiter(limits, policy, fail, errors::add).isAllowed("route", key).block();
    }

    private static boolean fails(Stint limits, String policy, StintFilter.Fail fail, String key) throws Exception {
        try {
            ask(limits, policy, fail, key);
            return false;
        } catch (ExecutionException e) {
            return e.getCause() instanceof Stint.Failure;
        }
    }

    public static void main(String[] args) throws Exception {
        Stint limits = client(Harness.node(Harness.POLICIES));
        test("exactly five pass, with the headers of the policy", () -> {
            for (int i = 1; i <= 6; i++) {
                Response answer = ask(limits, "five", StintFilter.Fail.CLOSED, "gateway {ann}");
                same(i <= 5, answer.allowed);
                same("\"ever\";r=" + Math.max(0, 5 - i), answer.headers.get("RateLimit"));
            }
            same(5L, limits.get(Stint.entry("five", "gateway %7Bann%7D")).get(0).used());
        });
        test("no decision fails, or passes if it is said so; a mistake never passes", () -> {
            for (StintFilter.Fail fail : StintFilter.Fail.values()) {
                holds(fails(limits, "nope", fail, "ann"));
                holds(fails(limits, "five", fail, ""));
            }
            same(0, errors.size());
            Stint nowhere = client(new Harness.Servers(Harness.UNDECIDED, Harness.UNDECIDED).urls());
            holds(fails(nowhere, "five", StintFilter.Fail.CLOSED, "ann"));
            Response open = ask(nowhere, "five", StintFilter.Fail.OPEN, "ann");
            same(List.of(true, Map.of("Stint-Failed", "open"), 2), List.of(open.allowed, open.headers, errors.size()));
        });
        Harness.end();
    }
}
