package stint;

import static stint.Harness.client;
import static stint.Harness.holds;
import static stint.Harness.same;
import static stint.Harness.test;

import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.apache.catalina.Context;
import org.apache.catalina.startup.Tomcat;
import org.apache.tomcat.util.descriptor.web.FilterDef;
import org.apache.tomcat.util.descriptor.web.FilterMap;

/** The filter in a real Tomcat, beside a real node. */
final class FilterTest {
    private static final Function<HttpServletRequest, String> BY_USER = request -> request.getHeader("X-User");
    private static final HttpClient HTTP = HttpClient.newHttpClient();
    private static final Logger QUIET = Logger.getLogger("org.apache"); // a field: loggers that nobody holds are forgotten
    private static Stint limits;

    public static void main(String[] args) throws Exception {
        QUIET.setLevel(Level.OFF);
        limits = client(Harness.node(Harness.POLICIES));
        answers();
        failures();
        Harness.end();
    }

    /** The application tells how many units its request's decision has seen used. */
    private static final class Application extends HttpServlet {
        private static final long serialVersionUID = 1;

        @Override
        protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
            Object decision = request.getAttribute("stint");
            response.getWriter().print(decision instanceof Stint.Decision d ? String.valueOf(d.limits().get(0).used()) : "unasked");
        }
    }

    private interface Ask {
        HttpResponse<String> get(String... headers) throws Exception;
    }

    /** A Tomcat with the filter, and how it is asked. */
    private static Ask served(StintFilter filter) throws Exception {
        Path dir = Files.createTempDirectory("stint-tomcat-");
        Tomcat tomcat = new Tomcat();
        tomcat.setBaseDir(dir.toString());
        tomcat.setPort(0);
        Context context = tomcat.addContext("", dir.toString());
        Tomcat.addServlet(context, "application", new Application()).addMapping("/");
        FilterDef definition = new FilterDef();
        definition.setFilterName("stint");
        definition.setFilter(filter);
        context.addFilterDef(definition);
        FilterMap map = new FilterMap();
        map.setFilterName("stint");
        map.addURLPattern("/*");
        context.addFilterMap(map);
        tomcat.getConnector().setProperty("address", "127.0.0.1");
        tomcat.start();
        Harness.later(() -> {
            try {
                tomcat.stop();
                tomcat.destroy();
            } catch (Exception e) {
                throw new IOException(e);
            }
            try (var made = Files.walk(dir)) {
                made.sorted(java.util.Comparator.reverseOrder()).forEach(path -> path.toFile().delete());
            }
        });
        URI url = URI.create("http://127.0.0.1:" + tomcat.getConnector().getLocalPort() + "/");
        return headers -> {
            HttpRequest.Builder request = HttpRequest.newBuilder(url);
            if (headers.length > 0) {
                request.headers(headers);
            }
            return HTTP.send(request.build(), HttpResponse.BodyHandlers.ofString());
        };
    }

    private static StintFilter closed(Stint limits) {
        return new StintFilter(limits, StintFilter.Fail.CLOSED);
    }

    private static StintFilter open(Stint limits) {
        return new StintFilter(limits, StintFilter.Fail.OPEN);
    }

    private static String header(HttpResponse<String> answer, String name) {
        return answer.headers().firstValue(name).orElse("");
    }

    private static void answers() {
        test("exactly five, then 429", () -> {
            Ask ask = served(closed(limits).count("five", BY_USER));
            for (int i = 1; i <= 5; i++) {
                var answer = ask.get("X-User", "java ann");
                same(List.of(200, "\"ever\";r=" + (5 - i), String.valueOf(i)), List.of(answer.statusCode(), header(answer, "RateLimit"), answer.body()));
                holds(header(answer, "Access-Control-Expose-Headers").contains("RateLimit-Policy"));
            }
            var answer = ask.get("X-User", "java ann");
            same(List.of(429, "no-store", "application/problem+json", ""), List.of(answer.statusCode(), header(answer, "Cache-Control"),
                    header(answer, "Content-Type").split(";")[0], header(answer, "Retry-After")));
            same(Map.of("type", "https://iana.org/assignments/http-problem-types#quota-exceeded", "title", "Too many requests", "status", "429",
                    "violated-policies", List.of("five/ever")), Stint.Json.read(answer.body()).fields());
        });
        test("a challenge is a 403 with its code", () -> {
            Ask ask = served(closed(limits).count("soft", BY_USER));
            same(200, ask.get("X-User", "java soft").statusCode());
            var answer = ask.get("X-User", "java soft");
            same(403, answer.statusCode());
            same(Map.of("type", "urn:stint:problem:challenge", "title", "Challenge required", "status", "403", "code", "challenge", "detail",
                    "Are you a robot?", "violated-policies", List.of("soft/challenge")), Stint.Json.read(answer.body()).fields());
        });
        test("a forged address is not read, and a denial has its wait", () -> {
            Ask ask = served(closed(limits).count("window", StintFilter.clientIp()));
            List<Integer> statuses = new ArrayList<>();
            for (int i = 0; i < 4; i++) {
                var answer = ask.get("X-Forwarded-For", "198.51.100." + i);
                statuses.add(answer.statusCode());
                holds(answer.statusCode() == 200 || Integer.parseInt(header(answer, "Retry-After")) >= 1);
            }
            same(List.of(200, 200, 200, 429), statuses);
            ask = served(closed(limits).count("window", StintFilter.clientIp("127.0.0.0/8")));
            same(200, ask.get("X-Forwarded-For", "198.51.100.7").statusCode());
            same(400, ask.get().statusCode());
        });
        test("entries are all or nothing", () -> {
            Ask ask = served(closed(limits).count("window", BY_USER).countParts("many", request -> Map.of("user", BY_USER.apply(request))));
            List<Integer> statuses = new ArrayList<>();
            for (int i = 0; i < 4; i++) {
                statuses.add(ask.get("X-User", "java {both}").statusCode());
            }
            same(List.of(200, 200, 200, 429), statuses);
            same(3L, limits.get(Stint.entry("many", "user=java %7Bboth%7D")).get(0).used());
            same(200, served(closed(limits).count("many", BY_USER, request -> 7)).get("X-User", "java cost").statusCode());
            same(7L, limits.get(Stint.entry("many", "java cost")).get(0).used());
        });
        test("without a key", () -> {
            same(400, served(open(limits).count("many", BY_USER)).get().statusCode());
            same("unasked", served(closed(limits).count("many", BY_USER).onMissing(StintFilter.Missing.SKIP)).get().body());
            same("1", served(closed(limits).count("many", BY_USER).onMissing(StintFilter.Missing.SHARED)).get().body());
        });
    }

    private static void failures() {
        test("no decision by fail mode, and a mistake is never open", () -> {
            List<String> errors = new ArrayList<>();
            Stint nowhere = client(new Harness.Servers(Harness.UNDECIDED).urls());
            var answer = served(closed(nowhere).count("five", r -> "java k").onError(e -> errors.add(e.code()))).get();
            same(List.of(503, "1", "Retry-After"), List.of(answer.statusCode(), header(answer, "Retry-After"), header(answer, "Access-Control-Expose-Headers")));
            answer = served(open(nowhere).count("five", r -> "java k").onError(e -> errors.add(e.code())).timeout(Duration.ofSeconds(9)).withoutIds()).get();
            same(List.of(200, "open", "unasked"), List.of(answer.statusCode(), header(answer, "Stint-Failed"), answer.body()));
            same(List.of("internal", "internal"), errors);
            same(403, served(open(limits).count("known", r -> "invented")).get().statusCode());
            same(500, served(open(limits).count("nope", r -> "k")).get().statusCode());
            same(500, served(open(limits)).get().statusCode()); // it would count nothing
        });
        test("a key without room never passes", () -> {
            String[] key = {"java 0"};
            Ask ask = served(open(limits).count("few", r -> key[0]));
            same(200, ask.get().statusCode());
            key[0] = "java 1";
            var answer = ask.get();
            same(List.of(503, ""), List.of(answer.statusCode(), header(answer, "Stint-Failed")));
        });
    }
}
