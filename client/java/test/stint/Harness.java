package stint;

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.Closeable;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** What the tests share: a real node, servers that fail in one way each, and the few words of a test. */
final class Harness {
    static final Path ROOT = Path.of("").toAbsolutePath();
    static final String POLICIES = ROOT.resolve("client/js/test/policies.yaml").toString();
    static final String BINARY = Objects.requireNonNull(System.getenv("STINT_BINARY"), "STINT_BINARY: make java builds the program stint");

    /** What a cluster says that cannot decide. It is not asked again: no test has to wait for the end of a time. */
    static final Answer UNDECIDED = new Answer(500, failure("internal", "cannot decide"));
    static final Answer ALLOWED = new Answer(200, "{\"decision\":{\"allowed\":true}}");

    private static final Deque<Closeable> closers = new ArrayDeque<>();
    private static int passed;
    private static int failed;

    private Harness() {
    }

    static String failure(String code, String message) {
        return Stint.Json.write(Map.of("code", code, "message", message, "details", List.of(Map.of("type", "stint.v1.Failure", "value", ""))));
    }

    interface Body {
        void run() throws Exception;
    }

    static void test(String name, Body body) {
        int before = closers.size();
        try {
            body.run();
            passed++;
            System.out.println("ok " + name);
        } catch (Throwable t) {
            failed++;
            System.out.println("FAIL " + name);
            t.printStackTrace(System.out);
        }
        close(before);
    }

    /** Ends the program, as its tests did. */
    static void end() {
        close(0);
        System.out.println(passed + " passed, " + failed + " failed");
        System.exit(failed == 0 && passed > 0 ? 0 : 1);
    }

    private static void close(int before) {
        while (closers.size() > before) {
            try {
                closers.pop().close();
            } catch (IOException e) {
                throw new IllegalStateException(e);
            }
        }
    }

    static <T extends Closeable> T later(T closer) {
        closers.push(closer);
        return closer;
    }

    static void same(Object want, Object got) {
        if (!Objects.equals(want, got)) {
            throw new AssertionError("got " + got + ", want " + want);
        }
    }

    static void holds(boolean condition) {
        same(true, condition);
    }

    static <T extends Throwable> T fails(Class<T> kind, Body call) {
        try {
            call.run();
        } catch (Throwable t) {
            if (kind.isInstance(t)) {
                return kind.cast(t);
            }
            throw new AssertionError(t);
        }
        throw new AssertionError("it did not fail");
    }

    static Stint.Failure fails(Body call) {
        return fails(Stint.Failure.class, call);
    }

    /** Code and maybeApplied. */
    static void same(String code, boolean maybeApplied, Stint.Failure failure) {
        same(List.of(code, maybeApplied), List.of(failure.code(), failure.maybeApplied()));
    }

    /** A node on a free port; gives its base URL. */
    static String node(String policies, String... flags) throws IOException {
        List<String> command = new ArrayList<>(List.of(BINARY, "serve", "--dev", "--policies", policies, "--api-addr", "127.0.0.1:0"));
        command.addAll(Arrays.asList(flags));
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        later(() -> {
            process.destroy();
            process.onExit().join();
        });
        BufferedReader output = process.inputReader();
        StringBuilder said = new StringBuilder();
        for (String line; (line = output.readLine()) != null; said.append(line).append('\n')) {
            Matcher ready = Pattern.compile("stint is ready at (https?:\\S+)").matcher(line);
            if (ready.find()) {
                daemon(() -> output.transferTo(java.io.Writer.nullWriter()));
                return ready.group(1);
            }
        }
        throw new IOException("stint ended: " + said);
    }

    static String run(String... command) throws IOException {
        Process process = new ProcessBuilder(command).redirectErrorStream(true).redirectInput(new File("/dev/null")).start();
        String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        same(List.of(0, ""), List.of(process.onExit().join().exitValue(), process.exitValue() == 0 ? "" : said));
        return said.strip();
    }

    static void daemon(Body body) {
        Thread thread = new Thread(() -> {
            try {
                body.run();
            } catch (Exception e) {
                // The other end has gone.
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    /** A base URL at which nobody listens. */
    static String refused() throws IOException {
        try (ServerSocket listener = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return "http://127.0.0.1:" + listener.getLocalPort();
        }
    }

    /** A client that begins at the first of its addresses. */
    static Stint client(String... addresses) {
        return client(Stint.at(addresses));
    }

    static Stint client(Stint.Builder builder) {
        Stint client = builder.timeout(Duration.ofSeconds(60)).build();
        client.next.set(0);
        return client;
    }

    record Answer(int status, String body) {
    }

    record Request(Map<String, String> headers, String body) {
        Stint.Json.Message message() {
            return Stint.Json.read(body);
        }
    }

    /**
     * Servers that give scripted answers, in the order of the requests and whichever of them is asked; the last answer is repeated.
     *
     * <p>An answer is an Answer; "drop": the connection ends after the request was read; "pass": the target's; "lost": the target has
     * counted, and the connection ends; "hang": it has counted, and no answer comes; "half": the answer stops within its body;
     * "last": the target's, and the connection ends without a word.
     */
    static final class Servers implements Closeable {
        final List<Request> requests = new ArrayList<>();
        int connections;
        private final List<?> answers;
        private final String target;
        private final List<ServerSocket> listeners = new ArrayList<>();

        Servers(int nodes, String target, List<?> answers) throws IOException {
            this.answers = answers;
            this.target = target;
            for (int i = 0; i < nodes; i++) {
                ServerSocket listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
                listeners.add(listener);
                daemon(() -> {
                    while (true) {
                        Socket connection = listener.accept();
                        synchronized (this) {
                            connections++;
                        }
                        daemon(() -> serve(connection));
                    }
                });
            }
            later(this);
        }

        Servers(Object... answers) throws IOException {
            this(1, null, List.of(answers));
        }

        String[] urls() {
            return listeners.stream().map(l -> "http://127.0.0.1:" + l.getLocalPort()).toArray(String[]::new);
        }

        /** Waits until as many requests were read. */
        synchronized void await(int count) throws InterruptedException {
            while (requests.size() < count) {
                wait();
            }
        }

        @Override
        public void close() throws IOException {
            for (ServerSocket listener : listeners) {
                listener.close();
            }
        }

        private void serve(Socket connection) throws Exception {
            try (connection) {
                InputStream in = connection.getInputStream();
                for (String first; (first = line(in)) != null;) {
                    Map<String, String> headers = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
                    for (String line; !(line = line(in)).isEmpty();) {
                        headers.put(line.split(": ", 2)[0], line.split(": ", 2)[1]);
                    }
                    String body = new String(in.readNBytes(Integer.parseInt(headers.get("Content-Length"))), StandardCharsets.UTF_8);
                    Object answer;
                    synchronized (this) {
                        requests.add(new Request(headers, body));
                        answer = answers.get(Math.min(requests.size(), answers.size()) - 1);
                        notifyAll();
                    }
                    if (!answered(connection.getOutputStream(), answer, first.split(" ")[1], body)) {
                        return;
                    }
                }
            }
        }

        private boolean answered(OutputStream out, Object answer, String path, String body) throws Exception {
            Answer given = answer instanceof Answer a ? a : answer.equals("drop") ? null : ask(path, body);
            if (answer.equals("hang")) {
                Thread.sleep(Long.MAX_VALUE);
            }
            if (answer.equals("drop") || answer.equals("lost")) {
                return false;
            }
            byte[] text = given.body.getBytes(StandardCharsets.UTF_8);
            out.write(("HTTP/1.1 " + given.status + " X\r\nContent-Length: " + text.length + "\r\n\r\n").getBytes(StandardCharsets.UTF_8));
            out.write(text, 0, answer.equals("half") ? text.length / 2 : text.length);
            if (answer.equals("half")) {
                Thread.sleep(Long.MAX_VALUE);
            }
            return !answer.equals("last");
        }

        private Answer ask(String path, String body) throws Exception {
            HttpRequest request = HttpRequest.newBuilder(URI.create(target + path)).header("Content-Type", "application/json")
                    .POST(HttpRequest.BodyPublishers.ofString(body)).build();
            HttpResponse<String> answer = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
            return new Answer(answer.statusCode(), answer.body());
        }

        private static String line(InputStream in) throws IOException {
            ByteArrayOutputStream line = new ByteArrayOutputStream();
            for (int c; (c = in.read()) >= 0;) {
                if (c == '\n') {
                    return line.toString(StandardCharsets.UTF_8).stripTrailing();
                }
                line.write(c);
            }
            return null;
        }
    }
}
