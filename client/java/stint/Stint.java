package stint;

import java.io.IOException;
import java.math.BigDecimal;
import java.net.ConnectException;
import java.net.Inet4Address;
import java.net.InetAddress;
import java.net.URI;
import java.net.URISyntaxException;
import java.net.UnknownHostException;
import java.net.http.HttpClient;
import java.net.http.HttpConnectTimeoutException;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.time.DateTimeException;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.regex.Pattern;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLHandshakeException;

/**
 * Client of stint, the rate limiter and quota service that counts exactly. One file on the standard library, for Java 17+.
 *
 * <pre>
 *   Stint limits = Stint.at("http://127.0.0.1:7400").build();
 *   Stint.Decision decision = limits.check(Stint.entry("login", "user:42"));
 *   if (!decision.allowed()) System.out.println("wait " + decision.retryAfterSeconds() + " s");
 * </pre>
 *
 * A denial is a Decision, never an exception. A Failure is never a denial. README.md is the manual.
 *
 * <p>All methods may be called by any number of threads. A program needs one client, which needs no end.
 */
public final class Stint {
    private static final Duration PAUSE_LEAST = Duration.ofMillis(10);
    private static final Duration PAUSE_MOST = Duration.ofMillis(200);
    private static final Duration ATTEMPT_LEAST = Duration.ofMillis(250); // what one address is given before the next is asked
    private static final Duration REST_LEAST = Duration.ofMillis(50); // less could only make a certain failure unsure
    private static final Duration BODY = Duration.ofMillis(20); // an answer whose first line is there may still end within it
    private static final Duration TIMEOUT = Duration.ofSeconds(5);
    private static final int KEY_BYTES_MOST = 512;

    private final List<String> addresses;
    private final String token;
    private final Duration timeout;
    private final String namespace;
    private final HttpClient http;
    final AtomicInteger next; // index of the node to ask: the last one that answered

    private Stint(Builder b) {
        addresses = List.copyOf(b.addresses);
        token = b.token;
        timeout = b.timeout;
        namespace = b.namespace;
        // Over HTTP/1.1 each call under way has a connection of its own: no answer waits behind another one.
        HttpClient.Builder made = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1);
        http = (b.tls == null ? made : made.sslContext(b.tls)).build();
        next = new AtomicInteger(ThreadLocalRandom.current().nextInt(addresses.size()));
    }

    /** Begins a client of a cluster. addresses: base URLs of some nodes; the next one is asked when one does not answer. */
    public static Builder at(String... addresses) {
        return new Builder(addresses);
    }

    /** How to reach a cluster. */
    public static final class Builder {
        private final List<String> addresses = new ArrayList<>();
        private String token = "";
        private Duration timeout = TIMEOUT;
        private String namespace = "";
        private SSLContext tls;

        private Builder(String... given) {
            if (given.length == 0) {
                throw new IllegalArgumentException("stint: no address: give the base URL of one node at least, as in http://127.0.0.1:7400");
            }
            for (String address : given) {
                addresses.add(base(address));
            }
        }

        /** Authenticates the requests. It is sent to https:// and to this machine only. */
        public Builder token(String token) {
            if (!token.matches("[\\x21-\\x7e]*")) {
                throw new IllegalArgumentException("stint: the token is not one that stint gave out");
            }
            this.token = token;
            return this;
        }

        /** Bounds a call with all its attempts. The default is 5 s. */
        public Builder timeout(Duration timeout) {
            if (!positive(timeout)) {
                throw new IllegalArgumentException("stint: timeout must be above 0");
            }
            this.timeout = timeout;
            return this;
        }

        /** The namespace of calls that name none. */
        public Builder namespace(String namespace) {
            this.namespace = namespace;
            return this;
        }

        /** Used for https://, for instance with the authority of the nodes' certificates. */
        public Builder tls(SSLContext tls) {
            this.tls = tls;
            return this;
        }

        /** Makes the client. No connection is made yet. */
        public Stint build() {
            for (String address : addresses) {
                URI url = URI.create(address);
                if (!token.isEmpty() && !url.getScheme().equals("https") && !thisMachine(url.getHost())) {
                    throw new IllegalArgumentException("stint: the token is not sent in the clear to " + url.getHost()
                            + ": use https://, or an address of this machine");
                }
            }
            return new Stint(this);
        }

        private static String base(String address) {
            try {
                URI url = new URI(String.valueOf(address));
                if (url.getRawUserInfo() != null) {
                    throw new IllegalArgumentException("stint: the address of " + url.getHost() + " has a name or password: use a token");
                }
                String scheme = String.valueOf(url.getScheme());
                if (Set.of("http", "https").contains(scheme) && url.getHost() != null && url.getQuery() == null && url.getFragment() == null) {
                    return address.replaceAll("/+$", "");
                }
            } catch (URISyntaxException e) {
                // Said below, without the text of a password.
            }
            String shown = address == null || address.contains("@") ? "the address" : "\"" + address + "\"";
            throw new IllegalArgumentException("stint: " + shown + " is no base URL, as http://127.0.0.1:7400 is");
        }

        private static boolean thisMachine(String host) {
            InetAddress address = ClientIp.read(host);
            return host.equals("localhost") || address != null && address.isLoopbackAddress();
        }
    }

    /** Why there is no decision. It is never a denial. */
    public static final class Failure extends RuntimeException {
        private static final long serialVersionUID = 1;
        private static final Set<String> NO_DECISION = Set.of("unavailable", "aborted", "deadline_exceeded", "canceled", "internal",
                "unknown", "data_loss", "resource_exhausted");
        private static final Pattern KEY = Pattern.compile("^(check\\.)?entries\\[\\d+\\]\\.key: ");

        private final String code;
        private final String detail;
        private final boolean maybeApplied;

        Failure(String code, String detail, boolean maybeApplied) {
            super("stint: " + code + ": " + detail);
            this.code = code;
            this.detail = detail;
            this.maybeApplied = maybeApplied;
        }

        /** Name of the RPC code, as in "unavailable". */
        public String code() {
            return code;
        }

        public String detail() {
            return detail;
        }

        /** The request was counted once or not at all. False: it was certainly not counted. */
        public boolean maybeApplied() {
            return maybeApplied;
        }

        /** The cluster could not decide: the case for a fail mode. False: the request will never be right, or its key has no room. */
        public boolean noDecision() {
            return NO_DECISION.contains(code) && !noRoom();
        }

        /** The cluster refuses another key (max_keys, or a full shard). A stranger can cause it: let no request pass for it. */
        public boolean noRoom() {
            return detail.contains("until old ones end");
        }

        /** The policy refuses keys without an override (unknown_key: deny), and this key has none. */
        public boolean unknownKey() {
            return code.equals("not_found") && KEY.matcher(detail).find();
        }
    }

    /** What is counted. cost and tier may be null. limits: those that the request brings along, as JSON has them; or null. */
    public record Entry(String policy, String key, Long cost, String tier, List<Map<String, ?>> limits) {
        public Entry withCost(long units) {
            return new Entry(policy, key, units, tier, limits);
        }

        public Entry withTier(String name) {
            return new Entry(policy, key, cost, name, limits);
        }

        public Entry withLimits(List<Map<String, ?>> brought) {
            return new Entry(policy, key, cost, tier, brought);
        }
    }

    /** One unit of a key by a policy. */
    public static Entry entry(String policy, String key) {
        return new Entry(policy, key, null, null, null);
    }

    public enum Mode { ENFORCE, COUNT, PEEK, PARTIAL }

    public enum OnExpire { CANCEL, COMMIT }

    public enum Change { RESET, UNBLOCK }

    /** What a call has of its own. A null is the default of the client or of the policy. */
    public static final class Options {
        private static final String DRAWN = new String("drawn"); // told from a caller's text by identity
        private String namespace;
        private Duration timeout;
        private String id = DRAWN;
        private Mode mode;
        private OnExpire onExpire;
        private boolean explain;
        private boolean staleOk;

        public Options namespace(String name) {
            namespace = name;
            return this;
        }

        /** Bounds the call with all its attempts. */
        public Options timeout(Duration most) {
            timeout = most;
            return this;
        }

        /** By default a new one, so that a retry counts once. null: none, and what may have been counted is not repeated. */
        public Options idempotencyId(String text) {
            id = text;
            return this;
        }

        public Options mode(Mode of) {
            mode = of;
            return this;
        }

        /** What becomes of a hold that nobody settles. */
        public Options onExpire(OnExpire of) {
            onExpire = of;
            return this;
        }

        public Options explain() {
            explain = true;
            return this;
        }

        /** A look may be answered by any replica, from an earlier instant. */
        public Options staleOk() {
            staleOk = true;
            return this;
        }

        private String idOrNone() {
            if (id != null && id.isEmpty()) {
                throw invalid("idempotencyId: must be a text; null sends none");
            }
            return id == null ? "" : id == DRAWN ? UUID.randomUUID().toString() : id; // DRAWN: by identity
        }
    }

    /** How a hold ends, or lives longer. */
    public record Settlement(String action, Map<String, ?> how) {
        public static Settlement commit() {
            return new Settlement("commit", Map.of());
        }

        /** Commits what was really used, a number for each entry, in place of what was reserved. */
        public static Settlement commit(List<Long> actualCost) {
            return new Settlement("commit", Map.of("actualCost", actualCost.stream().map(String::valueOf).toList()));
        }

        /** overage: what becomes of units above the reserved ones, as in "debt". */
        public static Settlement commit(List<Long> actualCost, String overage) {
            Map<String, Object> how = new HashMap<>(commit(actualCost).how);
            how.put("overage", "OVERAGE_" + overage.toUpperCase(Locale.ROOT));
            return new Settlement("commit", how);
        }

        public static Settlement cancel() {
            return new Settlement("cancel", Map.of());
        }

        public static Settlement success() {
            return new Settlement("success", Map.of());
        }

        public static Settlement failed() {
            return new Settlement("failed", Map.of());
        }

        public static Settlement extend(Duration ttl) {
            return new Settlement("extend", Map.of("ttl", seconds(ttl)));
        }
    }

    /** State of one limit after a decision. soft: where it has no room, it asks for a challenge. A time or wait may be null. */
    public record LimitStatus(String policy, String limit, String key, long quota, long used, long held, long remaining, long granted,
            Instant windowStart, Instant resetAt, Duration retryAfter, boolean allowed, boolean shadow, boolean unlimited,
            long lockoutLevel, Instant blockedUntil, boolean soft) {
        private static LimitStatus of(Json.Message m) {
            return new LimitStatus(m.text("policy"), m.text("limit"), m.text("key"), m.number("quota"), m.number("used"), m.number("held"),
                    m.number("remaining"), m.number("granted"), m.time("windowStart"), m.time("resetAt"), m.span("retryAfter"),
                    m.yes("allowed"), m.yes("shadow"), m.yes("unlimited"), m.number("lockoutLevel"), m.time("blockedUntil"), m.yes("soft"));
        }
    }

    /**
     * Allowed or denied, with the state of every limit. decisionId: handle for a refund; empty for a denial. reason: safe to show.
     * retryAfter: null if no wait helps. headers: to copy into a response. replayed: counted before, under the same id, and not
     * again. challenge: not allowed, and only limits with on_exceeded: challenge say no: ask for a proof of a person. leased:
     * from a lease, as of its grant: used contains all of the lease, and there is no decisionId.
     */
    public record Decision(boolean allowed, String decisionId, List<LimitStatus> limits, List<String> deniedBy, String reason,
            Duration retryAfter, Instant decidedAt, Map<String, String> headers, String holdId, Instant holdExpiresAt, boolean replayed,
            boolean shadowDenied, String explanation, boolean challenge, boolean leased) {
        /** The wait in whole seconds, rounded up, 1 at least; or null. */
        public Long retryAfterSeconds() {
            return retryAfter == null ? null : Math.max(1, retryAfter.plusNanos(999_999_999).toSeconds());
        }

        private static Decision of(Json.Message m) {
            return new Decision(m.yes("allowed"), m.text("decisionId"), m.messages("limits").stream().map(LimitStatus::of).toList(),
                    m.texts("deniedBy"), m.text("reason"), m.span("retryAfter"), m.time("decidedAt"), m.textsByName("headers"),
                    m.text("holdId"), m.time("holdExpiresAt"), m.yes("replayed"), m.yes("shadowDenied"), m.text("explanation"),
                    m.text("outcome").equals("OUTCOME_CHALLENGE"), m.yes("leased"));
        }
    }

    /** Decides and counts: all entries or none. */
    public Decision check(Entry... entries) {
        return check(List.of(entries), new Options());
    }

    public Decision check(List<Entry> entries, Options o) {
        Map<String, Object> request = checkOf(entries, o);
        return decision("Check", request, !request.get("idempotencyId").equals(""), o);
    }

    /** Takes units as a hold that settle ends. */
    public Decision reserve(Entry entry, Duration ttl) {
        return reserve(List.of(entry), ttl, new Options());
    }

    public Decision reserve(List<Entry> entries, Duration ttl, Options o) {
        Map<String, Object> check = checkOf(entries, o);
        Map<String, Object> request = new LinkedHashMap<>(Map.of("check", check, "ttl", seconds(ttl)));
        if (o.onExpire != null) {
            request.put("onExpire", "ON_EXPIRE_" + o.onExpire);
        }
        return decision("Reserve", request, !check.get("idempotencyId").equals(""), o);
    }

    /** Ends the hold of a decision or makes it live longer; or gives back (cancel, commit) what a decision took. */
    public Decision settle(Decision target, Settlement s) {
        return settle(target.holdId, target.decisionId, s, new Options());
    }

    public Decision settle(String holdId, Settlement s) {
        return settle(holdId, "", s, new Options());
    }

    /** Settles a hold, or without one a decision. The same settlement sent again does nothing. */
    public Decision settle(String holdId, String decisionId, Settlement s, Options o) {
        if (holdId.isEmpty() && decisionId.isEmpty()) {
            throw invalid("target: has no hold and no decision: a denial has nothing to settle");
        }
        Map<String, Object> request = new LinkedHashMap<>();
        request.put(s.action, s.how);
        request.put(holdId.isEmpty() ? "decisionId" : "holdId", holdId.isEmpty() ? decisionId : holdId);
        boolean once = true;
        if (s.action.equals("extend")) {
            String id = o.idOrNone();
            once = !id.isEmpty();
            request.put("idempotencyId", id);
        }
        return decision("Settle", request, once, o);
    }

    /** Returns the state of keys and changes nothing. */
    public List<LimitStatus> get(Entry... entries) {
        return get(List.of(entries), new Options());
    }

    public List<LimitStatus> get(List<Entry> entries, Options o) {
        Map<String, Object> request = Map.of("namespace", namespaceOf(o), "entries", entriesOf(entries), "staleOk", o.staleOk);
        return limits(call("Get", request, true, o));
    }

    /**
     * Resets or unblocks a key by one policy, or by one of its limits. It is kept in the audit log, with the note, and needs a token
     * that may adjust.
     */
    public List<LimitStatus> adjust(String policy, String key, Change change, String limit, String note, Options o) {
        Map<String, Object> request = new LinkedHashMap<>(entriesOf(List.of(entry(policy, key))).get(0));
        request.putAll(Map.of("namespace", namespaceOf(o), "limit", limit, "note", note));
        request.put("idempotencyId", UUID.randomUUID().toString());
        request.put(change.name().toLowerCase(Locale.ROOT), Map.of());
        return limits(call("Adjust", request, true, o));
    }

    /** Reports whether a node can serve. It never throws. */
    public boolean ready() {
        for (String address : addresses) {
            try {
                Duration within = timeout.dividedBy(addresses.size());
                HttpRequest request = HttpRequest.newBuilder(URI.create(address + "/readyz")).timeout(within).build();
                if (exchange(address, request, within).statusCode() == 200) {
                    return true;
                }
            } catch (Failure e) {
                // Another one may be.
            }
        }
        return false;
    }

    private String namespaceOf(Options o) {
        return o.namespace == null ? namespace : o.namespace;
    }

    private Map<String, Object> checkOf(List<Entry> entries, Options o) {
        Map<String, Object> request = new LinkedHashMap<>();
        request.put("namespace", namespaceOf(o));
        request.put("entries", entriesOf(entries));
        request.put("idempotencyId", o.idOrNone());
        request.put("explain", o.explain);
        if (o.mode != null) {
            request.put("mode", "MODE_" + o.mode);
        }
        return request;
    }

    /** Checks entries. One without a key is refused here: the empty text of a template is a key that all callers share. */
    private static List<Map<String, Object>> entriesOf(List<Entry> entries) {
        if (entries.isEmpty()) {
            throw invalid("entries: there must be one at least");
        }
        List<Map<String, Object>> messages = new ArrayList<>();
        for (Entry e : entries) {
            String at = "entries[" + messages.size() + "].";
            if (e.key == null || e.key.isEmpty()) {
                throw invalid(at + "key: is missing or empty: all callers would share it");
            }
            if ((e.policy == null || e.policy.isEmpty()) && e.limits == null) {
                throw invalid(at + "policy: is missing");
            }
            if (e.cost != null && e.cost < 0) {
                throw invalid(at + "cost: must be a whole number from 0");
            }
            Map<String, Object> message = new LinkedHashMap<>();
            message.put("policy", e.policy);
            message.put("key", e.key);
            message.put("cost", e.cost == null ? null : e.cost.toString());
            message.put("tier", e.tier);
            message.put("limits", e.limits);
            message.values().removeIf(value -> value == null);
            messages.add(message);
        }
        return messages;
    }

    private Decision decision(String method, Map<String, ?> request, boolean countsOnce, Options o) {
        Json.Message answer = call(method, request, countsOnce, o);
        try {
            return Decision.of(answer.message("decision"));
        } catch (Json.Malformed e) {
            throw new Failure("aborted", "an answer without a decision: " + e.getMessage(), true);
        }
    }

    private static List<LimitStatus> limits(Json.Message answer) {
        try {
            return answer.messages("limits").stream().map(LimitStatus::of).toList();
        } catch (Json.Malformed e) {
            throw new Failure("aborted", "an answer that cannot be read: " + e.getMessage(), true);
        }
    }

    /** Sends a request until it is answered, its time is over, or a retry would be unsafe. countsOnce: sent twice, it counts once. */
    private Json.Message call(String method, Map<String, ?> request, boolean countsOnce, Options o) {
        Duration bound = o.timeout == null ? timeout : o.timeout;
        if (!positive(bound)) {
            throw invalid("timeout: must be above 0");
        }
        String body = Json.write(request);
        if (safeText(body) == null) {
            throw invalid("the request is no UTF-8");
        }
        long ends = System.nanoTime() + bound.toNanos();
        boolean maybeApplied = false; // by an earlier attempt, whatever a later one says
        for (int attempt = 0;; attempt++) {
            int at = next.get();
            Duration left = Duration.ofNanos(Math.max(1_000_000, ends - System.nanoTime()));
            Duration share = left.dividedBy(addresses.size());
            Failure failure;
            try {
                return ask(addresses.get(at), method, body, least(left, share.compareTo(ATTEMPT_LEAST) > 0 ? share : ATTEMPT_LEAST));
            } catch (Failure e) {
                failure = e;
            }
            boolean elsewhere = (failure.maybeApplied || failure.code.equals("unavailable")) && !failure.noRoom();
            if (elsewhere) {
                next.compareAndSet(at, (at + 1) % addresses.size());
            }
            boolean again = elsewhere && (countsOnce || !failure.maybeApplied);
            if (maybeApplied && !failure.maybeApplied) {
                failure = new Failure("aborted", "an earlier attempt may have been counted; the last one: " + failure.getMessage(), true);
            }
            maybeApplied = failure.maybeApplied;
            // Another address is asked at once, the same one after a pause.
            Duration pause = attempt + 1 < addresses.size() ? Duration.ZERO
                    : least(PAUSE_MOST, PAUSE_LEAST.multipliedBy(1L << Math.min(attempt, 8)));
            if (!again || Thread.currentThread().isInterrupted() || ends - System.nanoTime() < pause.plus(REST_LEAST).toNanos()) {
                throw failure;
            }
            try {
                TimeUnit.NANOSECONDS.sleep(pause.toNanos());
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                throw failure;
            }
            if (ends - System.nanoTime() < REST_LEAST.toNanos()) { // the pause was longer than it should have been
                throw failure;
            }
        }
    }

    private Json.Message ask(String address, String method, String body, Duration within) {
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(address + "/stint.v1.LimitService/" + method)).timeout(within)
                .header("Content-Type", "application/json").header("Connect-Timeout-Ms", String.valueOf(Math.max(1, within.toMillis())))
                .POST(HttpRequest.BodyPublishers.ofString(body));
        if (!token.isEmpty()) {
            request.header("Authorization", "Bearer " + token);
        }
        HttpResponse<String> answer = exchange(address, request.build(), within);
        Json.Message message;
        try {
            message = Json.read(answer.body());
        } catch (Json.Malformed e) {
            message = null;
        }
        if (answer.statusCode() != 200) {
            throw refused(answer, message);
        }
        if (message == null) {
            throw new Failure("aborted", address + " sent an answer that is no JSON", true);
        }
        return message;
    }

    /**
     * Sends a request once. HttpClient repeats no POST that was sent. Its own bound ends with the head of an answer, and tells
     * whether a connection was made; ours is for the body.
     */
    private HttpResponse<String> exchange(String address, HttpRequest request, Duration within) {
        var answer = http.sendAsync(request, HttpResponse.BodyHandlers.ofString());
        try {
            return answer.get(within.plus(BODY).toNanos(), TimeUnit.NANOSECONDS);
        } catch (ExecutionException e) {
            Throwable cause = e.getCause();
            // No request was sent: that includes a certificate that is not accepted.
            if (cause instanceof ConnectException || cause instanceof HttpConnectTimeoutException || cause instanceof SSLHandshakeException) {
                throw new Failure("unavailable", address + " cannot be reached: " + cause, false);
            }
            if (cause instanceof IOException) {
                throw new Failure("aborted", address + " gave no answer: " + cause, true);
            }
            throw new IllegalStateException(cause);
        } catch (TimeoutException e) {
            throw new Failure("aborted", address + " gave no whole answer: its time is over", true);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new Failure("canceled", "the thread was interrupted", true);
        } finally {
            answer.cancel(true); // ends what is still under way, with its connection
        }
    }

    /** The error of an answer that is not 200. */
    private static Failure refused(HttpResponse<String> answer, Json.Message message) {
        try {
            for (Json.Message detail : message == null ? List.<Json.Message>of() : message.messages("details")) {
                if (detail.text("type").equals("stint.v1.Failure") && detail.has("value") && message.has("code")) {
                    return new Failure(message.text("code"), message.text("message"), maybeApplied(detail.text("value")));
                }
            }
        } catch (Json.Malformed e) {
            // It is no answer of stint.
        }
        String text = answer.body().substring(0, Math.min(200, answer.body().length()));
        return new Failure("aborted", "an answer " + answer.statusCode() + " that is not stint's: " + text, true);
    }

    /** Field 3 of a stint.v1.Failure in protobuf, base64. What cannot be read may have been applied. */
    private static boolean maybeApplied(String value) {
        try {
            ByteBuffer in = ByteBuffer.wrap(Base64.getDecoder().decode(value));
            while (in.hasRemaining()) {
                long tag = varint(in);
                long number = varint(in);
                if (tag == 3 << 3) {
                    return number != 0;
                }
                if ((tag & 7) != 2 || number < 0 || number > in.remaining()) {
                    return true; // no field of a Failure
                }
                in.position(in.position() + (int) number);
            }
            return false;
        } catch (IllegalArgumentException | java.nio.BufferUnderflowException e) {
            return true;
        }
    }

    private static long varint(ByteBuffer in) {
        long value = 0;
        for (int shift = 0;; shift += 7) {
            byte b = in.get();
            value |= (long) (b & 127) << shift;
            if (b >= 0) {
                return value;
            }
        }
    }

    private static Failure invalid(String detail) {
        return new Failure("invalid_argument", detail, false);
    }

    private static boolean positive(Duration d) {
        return d != null && !d.isNegative() && !d.isZero();
    }

    private static Duration least(Duration a, Duration b) {
        return a.compareTo(b) < 0 ? a : b;
    }

    private static String seconds(Duration d) {
        if (!positive(d)) {
            throw invalid("ttl: must be more than 0");
        }
        return BigDecimal.valueOf(d.toSeconds()).add(BigDecimal.valueOf(d.getNano(), 9)).toPlainString() + "s";
    }

    /**
     * Makes a key of text that comes from outside. Different texts give different keys. "%", "=", "|", braces and controls are
     * written in percent: a brace would let a client choose the shard. The end of a key over 512 bytes becomes its SHA-256. A text
     * has the same key in the middleware for Go. null: the text is missing, empty or not UTF-8.
     */
    public static String safeKey(String text) {
        return safeText(text) == null ? null : shortened(escaped(text));
    }

    /**
     * Makes a key of parts by name, in their order. In parts "/" is escaped too: what stands before it is the key of a parent, which
     * only a text may name. null: a part, or all, are missing, empty or not UTF-8.
     */
    public static String safeKey(Map<String, String> parts) {
        List<String> all = new ArrayList<>();
        for (Map.Entry<String, String> part : parts == null ? Set.<Map.Entry<String, String>>of() : parts.entrySet()) {
            if (safeText(part.getValue()) == null) {
                return null;
            }
            all.add(escaped(part.getKey()).replace("/", "%2F") + "=" + escaped(part.getValue()).replace("/", "%2F"));
        }
        return all.isEmpty() ? null : shortened(String.join("|", all));
    }

    private static final Pattern ESCAPED = Pattern.compile("[%=|{}\\x00-\\x1f\\x7f-\\x9f]");

    private static String escaped(String text) {
        return ESCAPED.matcher(text).replaceAll(found -> {
            StringBuilder out = new StringBuilder();
            for (byte b : found.group().getBytes(StandardCharsets.UTF_8)) {
                out.append(String.format("%%%02X", b));
            }
            return out.toString();
        });
    }

    /** The text if it is not empty and has an UTF-8: no half of a pair. Or null. */
    private static String safeText(String text) {
        try {
            return text == null || StandardCharsets.UTF_8.newEncoder().encode(CharBuffer.wrap(text)).limit() == 0 ? null : text;
        } catch (CharacterCodingException e) {
            return null;
        }
    }

    /** Keeps the beginning of a long key, for people to read. No other key ends like that: behind the last bar of parts is "=". */
    private static String shortened(String text) {
        byte[] all = text.getBytes(StandardCharsets.UTF_8);
        if (all.length <= KEY_BYTES_MOST) {
            return text;
        }
        int cut = KEY_BYTES_MOST - 65;
        while ((all[cut] & 0xC0) == 0x80) { // not within a character
            cut--;
        }
        try {
            byte[] sum = MessageDigest.getInstance("SHA-256").digest(Arrays.copyOfRange(all, cut, all.length));
            return new String(all, 0, cut, StandardCharsets.UTF_8) + "|" + HexFormat.of().formatHex(sum);
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e); // every Java has it
        }
    }

    /**
     * The address of a client as a key, as in "ip:192.0.2.7" and "ip:2001:db8:1:2::": a client has a whole /64 of IPv6.
     *
     * <p>If the peer of the connection is a trusted proxy, the client is the first address in X-Forwarded-For, from the right, that is
     * none. On other connections a forwarded address is never read.
     */
    public static final class ClientIp {
        private static final Pattern LITERAL = Pattern.compile("(0|[1-9]\\d{0,2})(\\.(0|[1-9]\\d{0,2})){3}|[0-9a-fA-F:][0-9a-fA-F:.]*:[0-9a-fA-F:.]*");
        private static final Pattern PORT = Pattern.compile("(?:\\[([^\\]]*)\\]|(\\d+\\.\\d+\\.\\d+\\.\\d+))(?::\\d{1,5})?");
        private static final Network NAT64 = new Network("64:ff9b::/96"); // where all clients of IPv4 have one /64
        private static final Network TEREDO = new Network("2001::/32");

        private final List<Network> trusted;

        /** trustedProxies: addresses and networks, as in 10.0.0.0/8. */
        public ClientIp(String... trustedProxies) {
            trusted = Arrays.stream(trustedProxies).map(Network::new).toList();
        }

        /** The key of the client, or null if there is no address that can be believed. forwarded: the lines of X-Forwarded-For. */
        public String key(String peer, List<String> forwarded) {
            InetAddress address = read(peer);
            // A proxy that sends no header tells nothing: all its clients would share its address. If all addresses are trusted it is
            // the first one: nobody else has written the list.
            List<String> hops = Arrays.asList(String.join(",", forwarded).split(",", -1));
            for (int i = hops.size() - 1; i >= 0 && address != null && trusts(address); i--) {
                address = read(hops.get(i));
            }
            return address == null ? null : keyOf(address);
        }

        /** The key of an address that a platform writes into a header, or null. */
        public static String keyOf(String text) {
            InetAddress address = read(text);
            return address == null ? null : keyOf(address);
        }

        private boolean trusts(InetAddress address) {
            return trusted.stream().anyMatch(network -> network.has(address.getAddress()));
        }

        /** Reads an address, with a zone, a port or brackets or without, and asks no DNS. IPv4 within IPv6 becomes IPv4. */
        static InetAddress read(String text) {
            String literal = text == null ? "" : text.strip();
            var port = PORT.matcher(literal);
            if (port.matches()) {
                literal = port.group(1) == null ? port.group(2) : port.group(1);
            }
            literal = literal.replaceFirst("%[\\w.-]+$", "");
            try {
                return LITERAL.matcher(literal).matches() ? InetAddress.getByName(literal) : null;
            } catch (UnknownHostException e) {
                return null;
            }
        }

        private static String keyOf(InetAddress address) {
            byte[] b = address.getAddress();
            if (address instanceof Inet4Address) {
                return v4(b, 0, 0);
            }
            if (NAT64.has(b)) {
                return v4(b, 12, 0);
            }
            if (TEREDO.has(b)) {
                return v4(b, 12, 0xff);
            }
            List<String> groups = new ArrayList<>();
            for (int i = 0; i < 8; i += 2) {
                groups.add(Integer.toHexString((b[i] & 255) << 8 | b[i + 1] & 255));
            }
            while (!groups.isEmpty() && groups.get(groups.size() - 1).equals("0")) {
                groups.remove(groups.size() - 1);
            }
            return "ip:" + String.join(":", groups) + "::";
        }

        private static String v4(byte[] b, int from, int flip) {
            return String.format("ip:%d.%d.%d.%d", b[from] & 255 ^ flip, b[from + 1] & 255 ^ flip, b[from + 2] & 255 ^ flip, b[from + 3] & 255 ^ flip);
        }

        private record Network(byte[] base, int bits) {
            Network(String text) {
                this(address(text), bits(text));
            }

            private static byte[] address(String text) {
                InetAddress address = read(text.replaceFirst("/\\d{1,3}$", ""));
                if (address == null) {
                    throw new IllegalArgumentException("stint: \"" + text + "\" is no address and no network");
                }
                return address.getAddress();
            }

            private static int bits(String text) {
                int most = address(text).length * 8;
                int slash = text.indexOf('/');
                int bits = slash < 0 ? most : Integer.parseInt(text.substring(slash + 1));
                if (bits > most) {
                    throw new IllegalArgumentException("stint: \"" + text + "\" is no network");
                }
                return bits;
            }

            boolean has(byte[] address) {
                if (address.length != base.length) {
                    return false;
                }
                for (int i = 0; i < bits; i++) {
                    int mask = 128 >> i % 8;
                    if ((address[i / 8] & mask) != (base[i / 8] & mask)) {
                        return false;
                    }
                }
                return true;
            }
        }
    }

    /** The JSON of requests and answers. */
    static final class Json {
        /** A text that is no JSON, or not the one that was expected. */
        static final class Malformed extends RuntimeException {
            private static final long serialVersionUID = 1;

            Malformed(String what) {
                super(what);
            }
        }

        private static final int DEPTH_MOST = 64;
        private static final Pattern NUMBER = Pattern.compile("-?(0|[1-9]\\d*)(\\.\\d+)?([eE][+-]?\\d+)?");

        private final String text;
        private int at;

        private Json(String text) {
            this.text = text;
        }

        /** Reads a text that is an object. */
        static Message read(String text) {
            Json json = new Json(text);
            Object value = json.value(0);
            if (json.peek() != 0) {
                throw json.malformed();
            }
            return Message.of(value);
        }

        private Malformed malformed() {
            return new Malformed("no JSON at " + at);
        }

        /** The next character that is no space; 0 at the end. */
        private char peek() {
            while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) {
                at++;
            }
            return at < text.length() ? text.charAt(at) : 0;
        }

        private boolean took(char c) {
            boolean found = peek() == c;
            at += found ? 1 : 0;
            return found;
        }

        private void want(char c) {
            if (!took(c)) {
                throw malformed();
            }
        }

        private Object value(int depth) {
            if (depth > DEPTH_MOST) {
                throw malformed();
            }
            switch (peek()) {
                case '{':
                    return object(depth);
                case '[':
                    return list(depth);
                case '"':
                    return string();
                case 't':
                    return word("true", true);
                case 'f':
                    return word("false", false);
                case 'n':
                    return word("null", null);
                default:
                    var number = NUMBER.matcher(text).region(at, text.length());
                    if (!number.lookingAt()) {
                        throw malformed();
                    }
                    at = number.end();
                    return number.group();
            }
        }

        private Object word(String word, Object value) {
            if (!text.startsWith(word, at)) {
                throw malformed();
            }
            at += word.length();
            return value;
        }

        private Map<String, Object> object(int depth) {
            Map<String, Object> fields = new LinkedHashMap<>();
            want('{');
            if (took('}')) {
                return fields;
            }
            do {
                if (peek() != '"') {
                    throw malformed();
                }
                String name = string();
                want(':');
                fields.put(name, value(depth + 1));
            } while (took(','));
            want('}');
            return fields;
        }

        private List<Object> list(int depth) {
            List<Object> values = new ArrayList<>();
            want('[');
            if (took(']')) {
                return values;
            }
            do {
                values.add(value(depth + 1));
            } while (took(','));
            want(']');
            return values;
        }

        private String string() {
            StringBuilder out = new StringBuilder();
            for (at++; at < text.length(); at++) {
                char c = text.charAt(at);
                if (c == '"') {
                    at++;
                    return out.toString();
                }
                if (c == '\\') {
                    c = escape();
                } else if (c < ' ') {
                    throw malformed();
                }
                out.append(c);
            }
            throw malformed();
        }

        private char escape() {
            at++;
            int which = at < text.length() ? "\"\\/bfnrt".indexOf(text.charAt(at)) : -1;
            if (which >= 0) {
                return "\"\\/\b\f\n\r\t".charAt(which);
            }
            if (at + 4 >= text.length() || text.charAt(at) != 'u' || !text.substring(at + 1, at + 5).matches("[0-9a-fA-F]{4}")) {
                throw malformed();
            }
            at += 4;
            return (char) Integer.parseInt(text.substring(at - 3, at + 1), 16);
        }

        static String write(Object value) {
            if (value instanceof Map<?, ?> fields) {
                return "{" + String.join(",", fields.entrySet().stream().map(f -> quoted((String) f.getKey()) + ":" + write(f.getValue())).toList()) + "}";
            }
            if (value instanceof Iterable<?> values) {
                List<String> all = new ArrayList<>();
                values.forEach(v -> all.add(write(v)));
                return "[" + String.join(",", all) + "]";
            }
            return value == null || value instanceof Number || value instanceof Boolean ? String.valueOf(value) : quoted(value.toString());
        }

        private static String quoted(String text) {
            StringBuilder out = new StringBuilder("\"");
            for (char c : text.toCharArray()) {
                out.append(c < ' ' || c == '"' || c == '\\' ? String.format("\\u%04x", (int) c) : c);
            }
            return out.append('"').toString();
        }

        /** An object that was read. What is missing has the value that protobuf gives it. */
        record Message(Map<?, ?> fields) {
            static Message of(Object value) {
                if (value instanceof Map<?, ?> fields) {
                    return new Message(fields);
                }
                throw new Malformed("no object");
            }

            boolean has(String name) {
                return fields.get(name) != null;
            }

            private <T> T as(String name, Class<T> kind, T missing) {
                Object value = fields.get(name);
                if (value != null && !kind.isInstance(value)) {
                    throw new Malformed(name);
                }
                return value == null ? missing : kind.cast(value);
            }

            String text(String name) {
                return as(name, String.class, "");
            }

            boolean yes(String name) {
                return as(name, Boolean.class, false);
            }

            /** A number, which JSON may have as a text. */
            long number(String name) {
                try {
                    return Long.parseLong(as(name, String.class, "0"));
                } catch (NumberFormatException e) {
                    throw new Malformed(name);
                }
            }

            Instant time(String name) {
                try {
                    return has(name) ? Instant.parse(text(name)) : null;
                } catch (DateTimeException e) {
                    throw new Malformed(name);
                }
            }

            Duration span(String name) {
                try {
                    return has(name) ? Duration.parse("PT" + text(name)) : null;
                } catch (DateTimeException e) {
                    throw new Malformed(name);
                }
            }

            Message message(String name) {
                return of(fields.get(name));
            }

            private List<?> list(String name) {
                return as(name, List.class, List.of());
            }

            List<Message> messages(String name) {
                return list(name).stream().<Message>map(Message::of).toList();
            }

            List<String> texts(String name) {
                return list(name).stream().map(String::valueOf).toList();
            }

            Map<String, String> textsByName(String name) {
                Map<?, ?> values = as(name, Map.class, Map.of());
                Map<String, String> all = new LinkedHashMap<>();
                values.forEach((key, value) -> all.put(String.valueOf(key), String.valueOf(value)));
                return all;
            }
        }
    }
}
