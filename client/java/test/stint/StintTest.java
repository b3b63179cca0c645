package stint;

import static stint.Harness.client;
import static stint.Harness.fails;
import static stint.Harness.holds;
import static stint.Harness.same;
import static stint.Harness.test;
import static stint.Stint.entry;

import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.KeyStore;
import java.security.MessageDigest;
import java.security.cert.CertificateFactory;
import java.time.Duration;
import java.util.Collections;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;
import stint.Harness.Answer;
import stint.Harness.Servers;
import stint.Stint.Options;
import stint.Stint.Settlement;

/** The client beside a real node. */
final class StintTest {
    private static final Options NO_ID = new Options().idempotencyId(null);
    private static String node;
    private static Stint limits;

    public static void main(String[] args) throws Exception {
        node = Harness.node(Harness.POLICIES);
        limits = client(node);
        decisions();
        retries();
        bounds();
        answersThatAreNone();
        addresses();
        keys();
        test("TLS and tokens of a real node", StintTest::tls);
        test("the code of the pages runs", StintTest::pages);
        Harness.end();
    }

    private static long used(String policy, String key) {
        return limits.get(entry(policy, key)).get(0).used();
    }

    private static void decisions() {
        test("a check counts, and a denial is a decision with its wait", () -> {
            for (int i = 1; i <= 5; i++) {
                Stint.Decision d = limits.check(entry("five", "java counts"));
                same(List.of(true, (long) i, 5L - i), List.of(d.allowed(), d.limits().get(0).used(), d.limits().get(0).remaining()));
            }
            Stint.Decision d = limits.check(entry("five", "java counts"));
            same(List.of(false, List.of("five/ever")), List.of(d.allowed(), d.deniedBy()));
            same(null, d.retryAfterSeconds());
            d = limits.check(entry("window", "java counts").withCost(3));
            holds(d.allowed() && d.limits().get(0).resetAt().isAfter(d.decidedAt()));
            d = limits.check(entry("window", "java counts"));
            holds(!d.allowed() && d.retryAfterSeconds() >= 1 && d.retryAfterSeconds() <= 86_400);
            same(d.retryAfterSeconds().toString(), d.headers().get("Retry-After"));
            holds(limits.check(List.of(entry("five", "java peek")), new Options().mode(Stint.Mode.PEEK)).allowed());
            same(0L, used("five", "java peek"));
        });
        test("a hold is settled once, and a decision given back once", () -> {
            Stint.Decision hold = limits.reserve(entry("login", "java ann"), Duration.ofSeconds(30));
            holds(hold.allowed() && !hold.holdId().isEmpty() && hold.holdExpiresAt().isAfter(hold.decidedAt()));
            holds(limits.settle(hold, Settlement.extend(Duration.ofMinutes(1))).holdExpiresAt().isAfter(hold.holdExpiresAt()));
            limits.settle(hold, Settlement.success());
            limits.settle(hold.holdId(), Settlement.success());
            same("failed_precondition", fails(() -> limits.settle(hold, Settlement.failed())).code());
            for (int i = 0; i < 3; i++) {
                limits.settle(limits.reserve(entry("login", "java bob"), Duration.ofMinutes(1)), Settlement.failed());
            }
            Stint.Decision blocked = limits.reserve(List.of(entry("login", "java bob")), Duration.ofMinutes(1),
                    new Options().onExpire(Stint.OnExpire.CANCEL));
            same(List.of(false, "Too many attempts."), List.of(blocked.allowed(), blocked.reason()));
            holds(fails(() -> limits.settle(blocked, Settlement.failed())).detail().contains("nothing to settle"));
            limits.adjust("login", "java bob", Stint.Change.UNBLOCK, "", "by a test", new Options());
            Stint.Decision d = limits.check(entry("many", "java refund").withCost(10));
            limits.settle(d, Settlement.commit(List.of(4L)));
            same(4L, used("many", "java refund"));
        });
        test("limits that a request brings along", () -> {
            var brought = entry("inline", "java").withLimits(List.of(Map.of("name", "ever", "quota", "2", "lifetime", Map.of())));
            same("true true false", limits.check(brought).allowed() + " " + limits.check(brought).allowed() + " " + limits.check(brought).allowed());
        });
        test("64 threads get exactly 5 of 5", () -> {
            ExecutorService threads = Executors.newFixedThreadPool(64);
            Callable<Boolean> check = () -> limits.check(entry("five", "java crowd")).allowed();
            int allowed = 0;
            for (var answer : threads.invokeAll(Collections.nCopies(64, check))) {
                allowed += answer.get() ? 1 : 0;
            }
            threads.shutdown();
            same(5, allowed);
        });
        test("a node says whether it can serve", () -> holds(limits.ready() && !client(Harness.refused()).ready()));
    }

    private static void retries() {
        test("an answer that got lost is asked for again, and counts once", () -> {
            Servers script = new Servers(2, node, List.of("lost", "pass"));
            Stint.Decision d = client(script.urls()).check(entry("many", "java lost"));
            same(List.of(true, true, 1L), List.of(d.allowed(), d.replayed(), used("many", "java lost")));
            String id = script.requests.get(0).message().text("idempotencyId");
            holds(id.matches("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"));
            same(id, script.requests.get(1).message().text("idempotencyId"));
            client(script.urls()).check(entry("many", "java lost"));
            holds(!id.equals(script.requests.get(2).message().text("idempotencyId")));
        });
        test("a node that never answers costs its share of the time", () -> {
            Servers silent = new Servers(1, node, List.of("hang"));
            Stint.Decision d = client(silent.urls()[0], node).check(List.of(entry("many", "java hangs")), new Options().timeout(Duration.ofSeconds(8)));
            same(List.of(true, true, 1L), List.of(d.allowed(), d.replayed(), used("many", "java hangs")));
        });
        test("an answer that stops within its body is not waited for", () -> {
            Servers half = new Servers(1, node, List.of("half"));
            Stint.Decision d = client(half.urls()[0], node).check(List.of(entry("many", "java half")), new Options().timeout(Duration.ofSeconds(8)));
            same(List.of(true, true, 1L), List.of(d.allowed(), d.replayed(), used("many", "java half")));
        });
        test("without an id, what may have been counted is not repeated", () -> {
            Servers script = new Servers(2, node, List.of("lost"));
            Stint.Failure e = fails(() -> client(script.urls()).check(List.of(entry("many", "java no id")), NO_ID));
            same("aborted", true, e);
            holds(e.noDecision());
            same(List.of("", 1, 1L), List.of(script.requests.get(0).message().text("idempotencyId"), script.requests.size(), used("many", "java no id")));
        });
        test("an address at which nobody listens is certainly not counted", () -> {
            String nobody = Harness.refused();
            holds(client(nobody, node).check(List.of(entry("many", "java refused")), NO_ID).allowed());
            Stint.Failure e = fails(() -> client(nobody).check(List.of(entry("many", "java refused")), new Options().timeout(Duration.ofMillis(300))));
            same("unavailable", false, e);
            holds(e.noDecision());
            same("unavailable", false, fails(() -> client("http://no.such.host.invalid").check(List.of(entry("five", "k")),
                    new Options().timeout(Duration.ofMillis(300)))));
            same(1L, used("many", "java refused"));
        });
        test("a connection is kept, and an answer that was waited for in vain is never another call's", () -> {
            Servers script = new Servers(1, node, List.of("pass"));
            Stint kept = client(script.urls());
            kept.check(List.of(entry("many", "java kept")), NO_ID);
            kept.check(List.of(entry("many", "java kept")), NO_ID);
            same(1, script.connections);
            Servers late = new Servers(1, node, List.of("hang", "pass"));
            Stint again = client(late.urls());
            fails(() -> again.check(List.of(entry("many", "java kept")), new Options().idempotencyId(null).timeout(Duration.ofMillis(300))));
            again.check(entry("many", "java kept"));
            same(2, late.connections);
        });
    }

    private static void bounds() {
        test("a call has a bound of its own", () -> {
            Servers script = new Servers(Harness.UNDECIDED);
            fails(() -> Stint.at(script.urls()).build().check(entry("five", "bound")));
            fails(() -> Stint.at(script.urls()).timeout(Duration.ofMillis(700)).build().check(entry("five", "bound")));
            for (int i = 0; i < 2; i++) {
                int sent = Integer.parseInt(script.requests.get(i).headers().get("Connect-Timeout-Ms"));
                holds(sent >= 1 && sent <= (i == 0 ? 5000 : 700));
            }
        });
        test("the time of a call ends, and what was sent may have been counted", () -> {
            for (String how : List.of("hang", "half")) {
                Servers silent = new Servers(1, node, List.of(how));
                Stint.Failure e = fails(() -> client(silent.urls()).check(List.of(entry("many", "java late")), new Options().timeout(Duration.ofMillis(300))));
                same("aborted", true, e);
                holds(e.noDecision());
            }
        });
        test("a thread that is interrupted stops waiting", () -> {
            Servers silent = new Servers(2, node, List.of("hang"));
            Stint.Failure[] failure = new Stint.Failure[1];
            boolean[] interrupted = new boolean[1];
            Thread thread = new Thread(() -> {
                failure[0] = fails(() -> client(silent.urls()).check(entry("many", "java interrupted")));
                interrupted[0] = Thread.currentThread().isInterrupted();
            });
            thread.start();
            silent.await(1);
            thread.interrupt();
            thread.join();
            same("canceled", true, failure[0]);
            holds(interrupted[0] && silent.requests.size() == 1);
        });
        test("a wrong request is refused once, and names the field", () -> {
            Stint.Failure e = fails(() -> limits.check(entry("nope", "k")));
            same(List.of("not_found", false, false), List.of(e.code(), e.noDecision(), e.unknownKey()));
            holds(e.getMessage().contains("entries[0].policy") && fails(() -> limits.check(entry("known", "k"))).unknownKey());
            Servers script = new Servers(Harness.ALLOWED);
            Stint asking = client(script.urls());
            for (String key : new String[] {"", null}) {
                holds(fails(() -> asking.check(entry("five", key))).detail().contains("entries[0].key"));
            }
            holds(fails(() -> asking.check(entry("five", "k").withCost(-1))).detail().contains("entries[0].cost"));
            for (Duration wrong : List.of(Duration.ZERO, Duration.ofSeconds(-1))) {
                holds(fails(() -> asking.check(List.of(entry("five", "k")), new Options().timeout(wrong))).detail().contains("timeout"));
                fails(IllegalArgumentException.class, () -> Stint.at(node).timeout(wrong));
                holds(fails(() -> asking.reserve(entry("five", "k"), wrong)).detail().contains("ttl"));
            }
            for (Harness.Body wrong : List.<Harness.Body>of(asking::check, () -> asking.check(entry("five", "\ud800")),
                    () -> asking.check(List.of(entry("five", "k")), new Options().idempotencyId("")))) {
                same("invalid_argument", false, fails(wrong));
            }
            same(0, script.requests.size());
        });
    }

    private static void answersThatAreNone() {
        test("an answer that is none may have been counted, and is never allowed", () -> {
            for (String body : List.of("", "[]", "true", "{}", "{\"decision\":7}", "{\"decision\":{\"allowed\":\"true\"}}", "{\"decision\":{\"allowed\":true}",
                    "{\"decision\":{\"allowed\":true}} x", "{\"decision\":{\"retryAfter\":\"x\"}}", "{\"decision\":{\"limits\":[{\"used\":\"x\"}]}}",
                    "{\"decision\":{\"reason\":\"\\u12\"}}", "[".repeat(100_000))) {
                same("aborted", true, fails(() -> client(new Servers(new Answer(200, body)).urls()).check(List.of(entry("five", "k")), NO_ID)));
            }
        });
        test("a detail that ends early, or is of another message", () -> {
            Map<String, Boolean> details = new TreeMap<>(Map.of("", false, "GAA=", false, "GAE=", true, "GAE", true, "GA==", true, "GP8=", true,
                    "CA==", true, "CgVh", true, "IAE=", true, "!", true));
            details.put("CgFhGAE=", true);
            details.put("CgFhGAA=", false);
            for (var detail : details.entrySet()) {
                String body = Harness.failure("internal", "x").replace("\"value\":\"\"", "\"value\":\"" + detail.getKey() + "\"");
                same("internal", detail.getValue(), fails(() -> client(new Servers(new Answer(500, body)).urls()).check(List.of(entry("five", "k")), NO_ID)));
            }
        });
        test("texts that JSON escapes", () -> {
            String reason = "\"\\/\b\f\n\r\tü\ud83d\ude00";
            String body = Stint.Json.write(Map.of("decision", Map.of("reason", reason)));
            String escaped = "{ \"decision\" : { \"reason\" : \"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00fc\\uD83D\\ude00\" } }";
            for (String text : List.of(body, escaped)) {
                same(reason, client(new Servers(new Answer(200, text)).urls()).check(entry("five", reason)).reason());
            }
            limits.check(entry("many", "\"\\/ü\ud83d\ude00"));
            same(1L, used("many", "\"\\/ü\ud83d\ude00"));
        });
    }

    private static void addresses() {
        test("a token goes to https and to this machine only", () -> {
            for (String a : List.of("http://192.0.2.1:7400", "http://node.example.com", "http://localhost.example.com", "http://[2001:db8::1]:7400",
                    "http://0.0.0.0")) {
                var e = fails(IllegalArgumentException.class, () -> Stint.at(node, a).token("stint_x_y").build());
                holds(e.getMessage().contains("not sent in the clear"));
                Stint.at(a).build();
            }
            for (String a : List.of("https://node.example.com", "http://localhost:7400", "http://127.1.2.3", "http://[::1]:7400",
                    "http://[::ffff:127.0.0.1]:7400")) {
                Stint.at(a).token("stint_x_y").build();
            }
            Servers script = new Servers(Harness.ALLOWED);
            client(Stint.at(script.urls()).token("stint_x_y")).check(entry("many", "k"));
            client(script.urls()).check(entry("many", "k"));
            same("Bearer stint_x_y null", script.requests.get(0).headers().get("Authorization") + " " + script.requests.get(1).headers().get("Authorization"));
            fails(IllegalArgumentException.class, () -> Stint.at(node).token("stint_x\r\nX: y"));
        });
        test("addresses that are none are refused", () -> {
            for (String a : new String[] {"localhost:7400", "127.0.0.1:7400", "ftp://x", "http://", "http://a/?b", "http://a:b", null, "http://a\r\nX: y",
                    "http://u:secret@127.0.0.1", "http://u:secret@127.0.0.1:b"}) {
                holds(!fails(IllegalArgumentException.class, () -> Stint.at(a)).getMessage().contains("secret"));
            }
            fails(IllegalArgumentException.class, Stint::at);
        });
    }

    private static void keys() {
        test("keys of text from outside", () -> {
            Map.of("user:42", "user:42", "{a}%\n=|", "%7Ba%7D%25%0A%3D%7C", "\u0085", "%C2%85", "vendor:acme/product:x", "vendor:acme/product:x",
                    "a".repeat(600), "a".repeat(447) + "|" + sha256("a".repeat(153))).forEach((text, key) -> same(key, Stint.safeKey(text)));
            Map<String, String> parts = new TreeMap<>(Map.of("a", "x|b=y", "b", "/z"));
            same("a=x%7Cb%3Dy|b=%2Fz", Stint.safeKey(parts));
            parts.put("b", null);
            for (String missing : new String[] {Stint.safeKey(""), Stint.safeKey((String) null), Stint.safeKey("\ud800"), Stint.safeKey(Map.of()),
                    Stint.safeKey(parts), Stint.safeKey((Map<String, String>) null)}) {
                same(null, missing);
            }
            String ae = Stint.safeKey("ü".repeat(400));
            holds(ae.getBytes("UTF-8").length <= 512 && ae.startsWith("ü".repeat(223) + "|") && !ae.equals(Stint.safeKey("ü".repeat(401))));
        });
        test("the client's address", () -> {
            var ip = new Stint.ClientIp("10.0.0.0/8", "fd00::/8", "192.0.2.9");
            String[][] rows = {
                {"192.0.2.1", "1.1.1.1", "ip:192.0.2.1"},
                {"10.0.0.1", "9.9.9.9", "ip:9.9.9.9"},
                {"::ffff:10.0.0.1", "6.6.6.6, 9.9.9.9 , 10.0.0.2,192.0.2.9", "ip:9.9.9.9"},
                {"10.0.0.1", "9.9.9.9, junk", null},
                {"10.0.0.1", "9.9.9.9, 8.8.8.8/8", null},
                {"10.0.0.1", "", null},
                {"10.0.0.1", null, null},
                {"10.0.0.1", "9.9.9.9,", null},
                {"10.0.0.1", "junk, 9.9.9.9", "ip:9.9.9.9"},
                {"10.0.0.1", "10.0.0.7", "ip:10.0.0.7"},
                {"fd00::1", "[2001:db8:1:2:3:4:5:6]:443", "ip:2001:db8:1:2::"},
                {"10.0.0.1", "2001:db8::9%eth0", "ip:2001:db8::"},
                {"10.0.0.1", "64:ff9b::203.0.113.7", "ip:203.0.113.7"},
                {"10.0.0.1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "ip:192.0.2.45"},
                {"10.0.0.1", "64:ff9b:1::203.0.113.7", "ip:64:ff9b:1::"},
                {"10.0.0.1", "::ffff:9.9.9.9", "ip:9.9.9.9"},
                {"10.0.0.1", "::1", "ip:::"},
                {"10.0.0.1", "01.2.3.4", null},
                {"10.0.0.1", "1.2.3", null},
                {"10.0.0.1", "1.2.3.256", null},
                {"10.0.0.1", "localhost", null},
                {null, "9.9.9.9", null}};
            for (String[] row : rows) {
                same(row[2], ip.key(row[0], row[1] == null ? List.of() : List.of(row[1])));
            }
            same("ip:9.9.9.9", ip.key("10.0.0.1", List.of("6.6.6.6", "9.9.9.9")));
            same("ip:10.0.0.1", new Stint.ClientIp().key("10.0.0.1", List.of("9.9.9.9")));
            same("ip:9.9.9.9", Stint.ClientIp.keyOf("9.9.9.9"));
            for (String wrong : List.of("10.0.0", "10.0.0.0/33", "x/8", "10.0.0.0/")) {
                fails(IllegalArgumentException.class, () -> new Stint.ClientIp(wrong));
            }
        });
    }

    private static String sha256(String text) throws Exception {
        return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(text.getBytes("UTF-8")));
    }

    private static void tls() throws Exception {
        Path dir = Files.createTempDirectory("stint-java-");
        String certificate = dir.resolve("cert.pem").toString();
        String key = dir.resolve("key.pem").toString();
        Path file = dir.resolve("token");
        Harness.run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", certificate,
                "-days", "2", "-subj", "/CN=stint", "-addext", "subjectAltName=IP:127.0.0.1");
        String token = Harness.run(Harness.BINARY, "token", "generate");
        Files.writeString(file, token);
        for (Path secret : List.of(Path.of(key), file)) {
            Files.setPosixFilePermissions(secret, PosixFilePermissions.fromString("rw-------"));
        }
        String url = Harness.node(Harness.POLICIES, "--api-cert", certificate, "--api-key", key, "--admin-token-file", file.toString());
        SSLContext trust = trust(Path.of(certificate));
        Stint secure = client(Stint.at(url).token(token).tls(trust));
        holds(secure.check(entry("five", "tls")).allowed() && secure.check(entry("five", "tls")).allowed() && secure.ready());
        for (String wrong : List.of("", "stint_x_y")) {
            Stint.Failure e = fails(() -> client(Stint.at(url).token(wrong).tls(trust)).check(entry("five", "tls")));
            same("unauthenticated", false, e);
            holds(!e.noDecision());
        }
        // Another authority, another name: certainly not counted, so the next address is asked, without an id too.
        for (var other : List.of(Stint.at(url, node), Stint.at(url.replace("127.0.0.1", "localhost"), node).tls(trust))) {
            holds(client(other.token(token)).check(List.of(entry("many", "java tls")), NO_ID).allowed());
        }
        same(2L, used("many", "java tls"));
        same("failed_precondition", false, fails(() -> client(url.replace("https", "http")).check(entry("five", "tls"))));
        for (Path made : List.of(Path.of(certificate), Path.of(key), file, dir)) {
            Files.delete(made);
        }
    }

    /** Trusts one certificate. */
    private static SSLContext trust(Path certificate) throws Exception {
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null, null);
        try (InputStream in = Files.newInputStream(certificate)) {
            store.setCertificateEntry("stint", CertificateFactory.getInstance("X.509").generateCertificate(in));
        }
        TrustManagerFactory trusted = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trusted.init(store);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, trusted.getTrustManagers(), null);
        return context;
    }

    private static void pages() throws Exception {
        String page = Harness.node(Harness.ROOT.resolve("policy/dev.yaml").toString());
        int blocks = 0;
        for (String name : List.of("client/java/README.md", "docs/errors.md")) {
            Matcher block = Pattern.compile("^```java\n(.*?)^```", Pattern.MULTILINE | Pattern.DOTALL).matcher(Files.readString(Harness.ROOT.resolve(name)));
            for (; block.find(); blocks++) {
                Path program = Files.createTempFile("stint-", ".java");
                Files.writeString(program, block.group(1).replace("http://127.0.0.1:7400", page));
                same("", Harness.run("java", "-cp", System.getProperty("java.class.path"), program.toString()));
                Files.delete(program);
            }
        }
        same(4, blocks);
    }
}
