package io.seqd.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/** clients/vectors.json: the decisions of the Rust crate, which every library repeats. */
class VectorsTest {
    private static Answer vectors() {
        Path folder = Path.of("").toAbsolutePath();
        while (!Files.exists(folder.resolve("clients/vectors.json"))) {
            folder = folder.getParent();
        }
        try {
            return Answer.of(Json.read(Files.readString(folder.resolve("clients/vectors.json"))));
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }

    @Test
    void layoutsAndTexts() {
        for (Answer vector : vectors().objects("layouts")) {
            Layout layout = Layout.of(vector.object("layout"));
            for (Answer time : vector.objects("times")) {
                long tick = layout.tickAt(time.integer("unix_ms"));
                assertEquals(time.has("tick"), tick >= 0 && tick <= layout.maxTick(), time.toString());
                assertEquals(time.integer("tick", tick), tick);
            }
            for (Answer one : vector.objects("ids")) {
                long id = one.integer("id");
                Layout.Parts parts = new Layout.Parts(one.integer("tick"), (int) one.integer("worker_id"),
                        (int) one.integer("sequence"));
                assertEquals(parts, layout.unpack(id));
                assertEquals(id, layout.pack(parts.tick(), parts.worker(), parts.sequence()));
                assertEquals(one.integer("unix_ms"), layout.wallAt(parts.tick()));
                for (IdFormat format : new IdFormat[] {IdFormat.HEX, IdFormat.BASE62, IdFormat.CROCKFORD}) {
                    String text = one.text(format.name().toLowerCase(Locale.ROOT));
                    assertEquals(text, format.encode(id));
                    assertEquals(id, format.parse(text));
                }
            }
        }
    }

    @TestFactory
    Stream<DynamicTest> leaseScripts() {
        return vectors().objects("leases").stream()
                .map(script -> DynamicTest.dynamicTest(script.text("name"), () -> lease(script)));
    }

    private static void lease(Answer script) {
        Layout layout = Layout.of(script.object("layout"));
        ClockPolicy policy = new ClockPolicy(script.integer("max_backward_wait_ms"),
                script.text("on_rollback").equals("continue"), script.integer("max_forward_jump_ms"));
        GeneratorKeeper keeper = new GeneratorKeeper(null, GeneratorOptions.ofOwner("test").clock(policy));
        for (Answer step : script.objects("steps")) {
            switch (step.text("do")) {
                case "granted" -> keeper.install(new Minter(layout, (int) step.integer("worker_id"), "1",
                        step.integer("from_tick"), step.integer("fence_tick"), policy));
                case "renewed" -> keeper.minter().extend(step.integer("fence_tick"));
                case "lost" -> keeper.drop(keeper.minter());
                case "close" -> {
                    keeper.minter().close();
                    assertEquals(step.integer("last_tick"), keeper.minter().releaseTick(), step.toString());
                }
                case "read" -> {
                    Mint verdict = keeper.read(step.integer("wall_ms"), step.integer("at_ms"));
                    assertEquals(step.text("clock"), verdict == null ? "good" : verdict.code(), step.toString());
                }
                case "mint" -> {
                    Mint mint = keeper.mint(step.integer("wall_ms"), step.integer("at_ms"),
                            (int) step.integer("count"));
                    assertEquals(step.textOrNull("refused"), mint.code(), step.toString());
                    assertEquals(step.integer("wait_ms", 0), mint.waitMs(), step.toString());
                    long[] ids = step.has("ids") ? step.integers("ids") : new long[0];
                    assertEquals(ids.length, mint.ids(), step.toString());
                    for (int at = 0; at < ids.length; at++) {
                        assertEquals(ids[at], mint.first() + at * mint.step(), step.toString());
                    }
                }
                default -> throw new IllegalStateException("unknown step " + step);
            }
        }
    }

    @TestFactory
    Stream<DynamicTest> lockScripts() {
        return vectors().objects("locks").stream()
                .map(script -> DynamicTest.dynamicTest(script.text("name"), () -> lock(script)));
    }

    private static void lock(Answer script) {
        long ttl = script.integer("ttl_ms");
        HoldState state = null;
        for (Answer step : script.objects("steps")) {
            long at = step.integer("at_ms");
            switch (step.text("do")) {
                case "granted" -> state = new HoldState(ttl, Hold.lasts(step.integer("expires_in_ms"),
                        step.integer("sent_ms"), ttl));
                case "renewed" -> state.renewed(step.integer("expires_in_ms"), step.integer("sent_ms"), at);
                case "refused" -> state.refused(new SeqdException(step.text("code"), "in a test",
                        step.text("code").equals("no-quorum")));
                case "check" -> {
                    LockLostException lost = state.lost(at);
                    assertEquals(step.textOrNull("lost"), lost == null ? null : lost.reason(), step.toString());
                    assertEquals(step.integer("until_ms", state.untilMs()), state.untilMs(), step.toString());
                }
                default -> throw new IllegalStateException("unknown step " + step);
            }
        }
    }

    @Test
    void operationsHaveTheRulesOfTheVectors() {
        Map<String, String> known = new HashMap<>();
        for (Answer row : vectors().objects("operations")) {
            known.put(row.text("id"), row.text("method") + " " + row.text("path") + " " + row.text("repeat") + " "
                    + row.flag("waits"));
        }
        for (Operation operation : Operation.values()) {
            String repeat = operation.repeat.name().toLowerCase(Locale.ROOT).replace('_', '-');
            assertEquals(known.get(operation.name().toLowerCase(Locale.ROOT)), operation.method + " " + operation.path
                    + " " + repeat + " " + operation.waits);
        }
    }

    private static final Stub.Response GOOD = new Stub.Response(200,
            "{\"id\":\"7\",\"ranges\":[{\"first\":\"7\",\"last\":\"7\",\"count\":1}]}");

    @TestFactory
    Stream<DynamicTest> retries() {
        return vectors().objects("retries").stream().map(vector -> DynamicTest.dynamicTest(vector.object("node")
                .text("does") + " " + vector.object("error").text("code"), () -> retry(vector)));
    }

    private static void retry(Answer vector) {
        boolean repeatable = vector.flag("repeatable");
        // Only a node that hangs uses its time; the first request of a process may take long.
        Duration timeout = Duration.ofMillis(vector.object("node").text("does").startsWith("hang") ? 1500 : 5000);
        try (Stub first = node(vector.object("node")); Stub good = new Stub(request -> GOOD);
                Stub alone = node(vector.object("node"))) {
            boolean isNext = vector.text("then").equals("next");
            String both = first.endpoint() + "," + good.endpoint();
            if (isNext) {
                send(both, timeout, repeatable);
            } else {
                assertThrows(SeqdException.class, () -> send(both, timeout, repeatable));
            }
            assertEquals(isNext ? 1 : 0, good.requests.size());
            SeqdException failed = assertThrows(SeqdException.class, () -> send(alone.endpoint(), timeout, repeatable));
            Answer error = vector.object("error");
            assertEquals(error.text("code"), failed.code(), failed.getMessage());
            assertEquals(error.flag("retryable"), failed.retryable());
            assertEquals(error.integer("retry_after_ms", -1), failed.retryAfterMs());
        }
    }

    private static void send(String endpoints, Duration timeout, boolean repeatable) {
        Client client = Client.builder(endpoints).timeout(timeout).build();
        assertEquals(7, repeatable ? client.id("default") : client.next("a"));
    }

    private static Stub node(Answer node) {
        Stub.Response none = new Stub.Response(Stub.NEVER, "");
        String does = node.text("does");
        Stub stub = new Stub(request -> switch (does) {
            case "answer" -> new Stub.Response((int) node.integer("status"), node.text("body"));
            case "close" -> new Stub.Response(0, "");
            default -> none;
        }, live -> does.equals("hang-livez") ? none : new Stub.Response(does.equals("fail-livez") ? 503 : 200, "{}"));
        if (does.equals("refuse")) {
            stub.close();
        }
        return stub;
    }
}
