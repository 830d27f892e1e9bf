package io.seqd.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.junit.jupiter.api.Test;

/** Which requests are sent again, and where. */
class RetriesTest {
    private static final Stub.Response NEXT =
            new Stub.Response(200, "{\"ranges\":[{\"first\":\"7\",\"last\":\"7\",\"count\":1}]}");
    private static final Stub.Response ID = new Stub.Response(200, "{\"id\":\"42\"}");

    private static Client client(Stub... nodes) {
        String endpoints = String.join(",", List.of(nodes).stream().map(Stub::endpoint).toList());
        return Client.builder(endpoints).build();
    }

    private static String code(Runnable call) {
        return assertThrows(SeqdException.class, call::run).code();
    }

    @Test
    void aRetryableResponseLeadsToTheNextEndpointAndItIsRemembered() {
        try (Stub busy = new Stub(request -> Stub.problem(503, "no-quorum", true));
                Stub good = new Stub(request -> NEXT)) {
            Client client = client(busy, good);
            assertEquals(7, client.next("order"));
            assertEquals(7, client.next("order"));
            assertEquals(1, busy.requests.size());
            assertEquals(2, good.requests.size());
        }
    }

    @Test
    void aFinalResponseAndAHeldLockAreNotRepeated() {
        try (Stub node = new Stub(request -> request.path().contains("locks") ? Stub.problem(409, "lock-held", true)
                : Stub.problem(404, "not-found", false)); Stub other = new Stub(request -> NEXT)) {
            Client client = client(node, other);
            SeqdException missing = assertThrows(SeqdException.class, () -> client.next("order"));
            assertEquals("not-found", missing.code());
            assertEquals("none", missing.hint());
            assertEquals(404, missing.status());
            LockOptions options = LockOptions.ofOwner("test").waitFor(Duration.ZERO);
            assertEquals("lock-held", code(() -> client.lock("job", options)));
            assertEquals(0, other.requests.size());
        }
    }

    @Test
    void aResponseThatStopsInItsBodyIsALostOne() {
        try (Stub stops = new Stub(request -> new Stub.Response(-200, "{"));
                Stub good = new Stub(request -> request.path().equals("/v1/id") ? ID : NEXT)) {
            String endpoints = stops.endpoint() + "," + good.endpoint();
            Client client = Client.builder(endpoints).timeout(Duration.ofSeconds(3)).build();
            assertEquals("outcome-unknown", code(() -> client.next("order")));
            assertEquals(0, good.requests.size());
            assertEquals(42, Client.builder(endpoints).timeout(Duration.ofSeconds(3)).build().id("default"));
        }
    }

    @Test
    void aLostResponseIsUnknownForAChangeAndRepeatedOtherwise() {
        try (Stub closes = new Stub(request -> new Stub.Response(0, ""));
                Stub good = new Stub(request -> request.path().equals("/v1/id") ? ID : NEXT)) {
            assertEquals("outcome-unknown", code(() -> client(closes, good).next("order")));
            assertEquals(1, closes.requests.size());
            assertEquals(0, good.requests.size());
            assertEquals(42, client(closes, good).id("default"));
        }
    }

    @Test
    void aChangeIsNotSentToASilentNode() {
        Stub.Response none = new Stub.Response(Stub.NEVER, "");
        try (Stub silent = new Stub(request -> none, request -> none); Stub good = new Stub(request -> NEXT)) {
            assertEquals(7, client(silent, good).next("order"));
            assertEquals(0, silent.requests.size());
        }
    }

    @Test
    void noNodeIsUnreachableAndAProxysPageIsNoOutcome() {
        Stub gone = new Stub(request -> NEXT);
        gone.close();
        assertEquals("unreachable", code(() -> client(gone).next("order")));
        try (Stub proxy = new Stub(request -> new Stub.Response(502, "<html>"))) {
            assertEquals("outcome-unknown", code(() -> client(proxy).next("order")));
            assertEquals("bad-answer", code(() -> client(proxy).id("default")));
        }
    }

    @Test
    void aDeadlineIsKeptAndSentToTheServer() {
        try (Stub silent = new Stub(request -> new Stub.Response(Stub.NEVER, ""))) {
            Client client = Client.builder(silent.endpoint()).timeout(Duration.ofSeconds(2)).build();
            assertEquals("no-answer", code(() -> client.id("default")));
            assertEquals("outcome-unknown", code(() -> client.next("order")));
            String query = silent.requests.get(0).query();
            assertTrue(query.contains("timeout_ms=2000") || query.contains("timeout_ms=1"), query);
        }
    }

    @Test
    void theDefaultTimeoutIsThreeSecondsForAllEndpoints() {
        try (Stub silent = new Stub(request -> new Stub.Response(Stub.NEVER, ""))) {
            long began = System.nanoTime();
            assertEquals("no-answer", code(() -> client(silent, silent).id("default")));
            assertTrue(System.nanoTime() - began < 5_000_000_000L);
        }
    }

    @Test
    void aNodeMayWaitAsLongAsRequestedAlsoIfOthersAreLeft() {
        try (Stub waits = new Stub(request -> {
            try {
                Thread.sleep(4500);
            } catch (InterruptedException closed) {
                Thread.currentThread().interrupt();
            }
            return new Stub.Response(200, "{\"state\":\"free\"}");
        }); Stub other = new Stub(request -> NEXT)) {
            String endpoints = waits.endpoint() + "," + other.endpoint();
            // Endpoints that shared the wait would each have less time than it takes.
            Client client = Client.builder(endpoints).timeout(Duration.ofSeconds(3)).build();
            Answer lock = client.call(Operation.LOCK, List.of("job"), Map.of("wait_ms", 4500));
            assertEquals("free", lock.text("state"));
            assertEquals(0, other.requests.size());
        }
    }

    @Test
    void theLackOfAThreadIsRetryable() {
        ExecutorService none = Executors.newCachedThreadPool(task -> {
            throw new OutOfMemoryError("unable to create native thread");
        });
        Transport transport = new Transport(Endpoint.parseList("n1", false), null, null, null, none);
        Transport.Call next = new Transport.Call("POST", "/v1/sequences/a/next", Map.of(), "{}", null, true, 0);
        SeqdException failed = assertThrows(SeqdException.class, () -> transport.send(next));
        assertEquals("unreachable", failed.code());
        assertTrue(failed.retryable() && failed.getMessage().contains("native thread"), failed.getMessage());
    }

    @Test
    void aNonceMakesABeginRepeatable() {
        try (Stub closes = new Stub(request -> new Stub.Response(0, "")); Stub good = new Stub(request ->
                new Stub.Response(200, "{\"state\":\"done\",\"attempt\":1,\"result\":{\"a\":[1,\"x\",null]}}"))) {
            Once.Result once = client(closes, good).once("key", Once.Options.of("f"), turn -> "never");
            assertTrue(once.replayed());
            assertEquals("{\"a\":[1,\"x\",null]}", Json.write(once.value()));
        }
    }

    @Test
    void endpointsAreParsedAsByTheCommandLine() {
        assertEquals("n1:7400", Endpoint.parse("https://n1", false).toString());
        assertEquals("[::1]:7410", Endpoint.parse(" [::1]:7410 ", false).toString());
        assertTrue(Endpoint.parse("n1", true).isHttps());
        for (String wrong : List.of("ftp://n1", "n1/v1", "n1:99999", "", "n1:x", "http://a@b", ":1")) {
            assertEquals("invalid-argument", code(() -> Endpoint.parse(wrong, false)), wrong);
        }
        assertEquals("http://n1:7400/v1/ids/a%2Fb?format=b%206", Endpoint.parse("n1", false)
                .url(Operation.ID_PARTS.path(List.of("a/b")), Map.of("format", "b 6")).toString());
    }
}
