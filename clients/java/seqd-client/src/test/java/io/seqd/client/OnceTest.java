package io.seqd.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What becomes of the outcome of work, and of the environment. */
class OnceTest {
    record Pay(String id) {}

    private static final String NOT_KEPT = "{\"seqd_result_not_kept\":\"is not JSON\"}";

    private static Stub node(String state, String result) {
        return new Stub(request -> request.path().endsWith("/complete") ? new Stub.Response(200, "{}")
                : new Stub.Response(200, "{\"state\":\"" + state + "\",\"claim\":\"4\",\"attempt\":1,\"token\":\"3\","
                        + "\"result\":" + result + "}"));
    }

    private static Once.Result once(Stub node, Object result) {
        return Client.builder(node.endpoint()).build().once("key", Once.Options.of("f"), turn -> result);
    }

    @Test
    void aResultThatIsNotJsonIsNamedAndTheKeyIsCompleted() {
        for (Object result : List.of(new Pay("a"), new Object(), Float.NaN)) {
            try (Stub node = node("first", "null")) {
                SeqdException failed = assertThrows(SeqdException.class, () -> once(node, result));
                assertEquals("not-kept", failed.code());
                assertTrue(failed.getMessage().contains("the work was done"), failed.getMessage());
                assertTrue(node.requests.get(1).body().contains("seqd_result_not_kept"), node.requests.toString());
            }
        }
        try (Stub node = node("done", NOT_KEPT)) {
            assertEquals("not-kept", assertThrows(SeqdException.class, () -> once(node, 1)).code());
        }
    }

    @Test
    void aKeyThatCannotBeCompletedIsReportedAsOpen() {
        Stub.Response begun = new Stub.Response(200,
                "{\"state\":\"first\",\"claim\":\"4\",\"attempt\":1,\"token\":\"3\"}");
        try (Stub node = new Stub(request -> request.path().endsWith("/complete")
                ? Stub.problem(403, "forbidden", false) : begun)) {
            SeqdException failed = assertThrows(SeqdException.class, () -> once(node, 1));
            assertTrue(failed.getMessage().contains("its key is still open"), failed.getMessage());
        }
    }

    @Test
    void aResultWhoseStoringHasNoAnswerMayBeRepeated() {
        Stub.Response begun = new Stub.Response(200,
                "{\"state\":\"first\",\"claim\":\"4\",\"attempt\":1,\"token\":\"3\"}");
        try (Stub node = new Stub(request -> request.path().endsWith("/complete")
                ? new Stub.Response(0, "") : begun)) {
            SeqdException failed = assertThrows(SeqdException.class, () -> once(node, 1));
            assertEquals("outcome-unknown", failed.code());
            assertTrue(failed.getMessage().contains("the work was done"), failed.getMessage());
        }
    }

    @Test
    void aRetryAfter0MsHasAPause() {
        String busy = "{\"status\":503,\"code\":\"overloaded\",\"retryable\":true,\"retry_after_ms\":0}";
        try (Stub node = new Stub(request -> new Stub.Response(503, busy))) {
            Once.Options options = Once.Options.of("f").withPatience(Duration.ofMillis(400));
            Client client = Client.builder(node.endpoint()).build();
            SeqdException failed = assertThrows(SeqdException.class, () -> client.once("key", options, turn -> 1));
            assertEquals("overloaded", failed.code());
            // One request per 20 ms, and the first and the last one.
            assertTrue(node.requests.size() <= 22, node.requests.size() + " requests");
        }
    }

    @Test
    void theClaimOfAnInterruptedBeginIsAbandoned() {
        Thread caller = Thread.currentThread();
        AtomicInteger begins = new AtomicInteger();
        try (Stub node = new Stub(request -> {
            if (request.path().endsWith("/begin") && begins.incrementAndGet() == 1) {
                caller.interrupt();
                return new Stub.Response(Stub.NEVER, "");
            }
            return new Stub.Response(200, "{\"state\":\"first\",\"claim\":\"4\",\"attempt\":1,\"token\":\"3\"}");
        })) {
            assertEquals("interrupted", assertThrows(SeqdException.class, () -> once(node, 1)).code());
            assertTrue(Thread.interrupted());
            assertEquals(3, node.requests.size(), node.requests.toString());
            Answer first = Answer.of(Json.read(node.requests.get(0).body()));
            Answer second = Answer.of(Json.read(node.requests.get(1).body()));
            assertEquals(first.text("nonce"), second.text("nonce"));
            assertTrue(node.requests.get(2).path().endsWith("/abandon"));
        } finally {
            Thread.interrupted();
        }
    }

    @Test
    void theFirstCallerGetsTheResultAsLaterOnesDo() {
        try (Stub node = node("first", "null")) {
            assertEquals(Map.of("n", 1L), once(node, Map.of("n", 1)).value());
        }
    }

    @Test
    void anInterruptedThreadStoresTheResult() {
        try (Stub node = node("first", "null")) {
            Client client = Client.builder(node.endpoint()).build();
            assertEquals("paid", client.once("key", Once.Options.of("f"), turn -> {
                Thread.currentThread().interrupt();
                return "paid";
            }).value());
            assertTrue(Thread.interrupted());
        }
    }

    /** A node that interrupts the caller, and responds later, to the request that stores or abandons. */
    private static Stub interrupting(Thread caller) {
        return new Stub(request -> {
            if (request.path().endsWith("/begin")) {
                return new Stub.Response(200, "{\"state\":\"first\",\"claim\":\"4\",\"attempt\":1,\"token\":\"3\"}");
            }
            caller.interrupt();
            try {
                Thread.sleep(200);
            } catch (InterruptedException closed) {
                Thread.currentThread().interrupt();
            }
            return new Stub.Response(200, "{}");
        });
    }

    @Test
    void anInterruptDuringTheStoringLosesNoResult() {
        try (Stub node = interrupting(Thread.currentThread())) {
            assertEquals("paid", once(node, "paid").value());
            assertTrue(Thread.interrupted());
        } finally {
            Thread.interrupted();
        }
    }

    @Test
    void anInterruptDuringTheAbandoningDoesNotEndIt() {
        try (Stub node = interrupting(Thread.currentThread())) {
            Client client = Client.builder(node.endpoint()).build();
            IllegalStateException failed = assertThrows(IllegalStateException.class,
                    () -> client.once("key", Once.Options.of("f"), turn -> {
                        throw new IllegalStateException("the work fails");
                    }));
            assertTrue(Thread.interrupted());
            assertEquals(List.of(), List.of(failed.getSuppressed()));
        } finally {
            Thread.interrupted();
        }
    }

    @Test
    void theEnvironmentIsRead(@TempDir Path folder) throws IOException {
        Path file = Files.writeString(folder.resolve("token"), "secret\n");
        try (Stub node = new Stub(request -> new Stub.Response(200, "{\"id\":\"42\"}"))) {
            Map<String, String> variables = Map.of("SEQD_ENDPOINTS", node.endpoint(), "SEQD_TOKEN", "",
                    "SEQD_TOKEN_FILE", file.toString());
            assertEquals(42, Client.fromEnvironment(variables).build().id("default"));
        }
        String missing = folder.resolve("none").toString();
        for (String name : List.of("SEQD_TOKEN_FILE", "SEQD_CACERT")) {
            SeqdException failed = assertThrows(SeqdException.class,
                    () -> Client.fromEnvironment(Map.of(name, missing)).build());
            assertTrue(failed.getMessage().contains(missing), failed.getMessage());
        }
        // A certificate implies https, also without a CA.
        SeqdException failed = assertThrows(SeqdException.class,
                () -> Client.fromEnvironment(Map.of("SEQD_CERT", missing, "SEQD_KEY", missing)).build());
        assertTrue(failed.getMessage().contains(missing), failed.getMessage());
        assertThrows(SeqdException.class, () -> Client.builder("n1").certificate(file, null).build());
        assertThrows(SeqdException.class, () -> Client.builder("n1").token("secret\n"));
    }
}
