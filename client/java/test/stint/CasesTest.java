package stint;

import static stint.Harness.test;

import java.nio.file.Files;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** The cases that the clients of all languages pass: client/testdata/cases.json says what its fields are. */
final class CasesTest {
    public static void main(String[] args) throws Exception {
        String text = Files.readString(Harness.ROOT.resolve("client/testdata/cases.json"));
        for (Stint.Json.Message c : Stint.Json.read(text).messages("cases")) {
            test(c.text("name"), () -> pass(c));
        }
        Harness.end();
    }

    private static void pass(Stint.Json.Message c) throws Exception {
        List<Object> answers = new ArrayList<>();
        for (Object answer : (List<?>) c.fields().get("answers")) {
            answers.add(answer instanceof Map<?, ?> m ? answer(new Stint.Json.Message(m)) : answer);
        }
        Harness.Servers script = new Harness.Servers(c.has("nodes") ? whole(c, "nodes") : 1, null, answers);
        List<String> addresses = new ArrayList<>(List.of(script.urls()));
        for (int i = 0; c.has("refused") && i < whole(c, "refused"); i++) {
            addresses.add(0, Harness.refused());
        }
        Stint limits = Stint.at(addresses.toArray(String[]::new)).timeout(Duration.ofMillis(c.has("timeoutMs") ? whole(c, "timeoutMs") : 120_000))
                .build();
        same(c.message("want"), answerOf(limits, c.message("do")));
        Harness.same(whole(c, "asked"), script.requests.size());
        for (Harness.Request request : script.requests) {
            Harness.same(script.requests.get(0).body(), request.body());
        }
    }

    private static Harness.Answer answer(Stint.Json.Message m) {
        Object body = m.fields().get("body");
        return new Harness.Answer(whole(m, "status"), body instanceof String s ? s : Stint.Json.write(body));
    }

    private static int whole(Stint.Json.Message m, String name) {
        return (int) m.number(name);
    }

    /** Makes the case's call, and returns the part of the answer that the case may want. */
    private static Object answerOf(Stint limits, Stint.Json.Message call) {
        List<Stint.Entry> entries = call.messages("entries").stream().map(e -> Stint.entry(e.text("policy"), e.text("key"))).toList();
        Stint.Options options = new Stint.Options().idempotencyId(call.has("id") ? call.text("id") : null);
        try {
            return switch (call.text("op")) {
                case "get" -> limits.get(entries, options);
                case "reserve" -> limits.reserve(entries, Duration.ofMillis(call.number("ttlMs")), options);
                case "settle" -> limits.settle(call.text("holdId"), call.text("decisionId"), settlement(call.text("action")), new Stint.Options());
                default -> limits.check(entries, options);
            };
        } catch (Stint.Failure failure) {
            return failure;
        }
    }

    private static Stint.Settlement settlement(String action) {
        return switch (action) {
            case "commit" -> Stint.Settlement.commit();
            case "success" -> Stint.Settlement.success();
            default -> Stint.Settlement.cancel();
        };
    }

    /** Compares what the case names. */
    private static void same(Stint.Json.Message want, Object got) throws Exception {
        if (want.has("limits")) {
            each(want.messages("limits"), (List<?>) got);
            return;
        }
        Harness.same(want.has("error"), got instanceof Stint.Failure);
        fields(want.message(want.has("error") ? "error" : "decision"), got);
    }

    private static void each(List<Stint.Json.Message> want, List<?> got) throws Exception {
        Harness.same(want.size(), got.size());
        for (int i = 0; i < want.size(); i++) {
            fields(want.get(i), got.get(i));
        }
    }

    private static void fields(Stint.Json.Message want, Object got) throws Exception {
        for (var field : want.fields().entrySet()) {
            String name = (String) field.getKey();
            Object value = got.getClass().getMethod(name).invoke(got);
            if (value instanceof List<?> all && !all.isEmpty() && all.get(0) instanceof Stint.LimitStatus) {
                each(want.messages(name), all);
            } else {
                Harness.same(name + " " + field.getValue(), name + " " + value);
            }
        }
    }
}
