package io.seqd.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

/** Draws from the segments of a script. */
class RangesTest {
    private static final Stub.Response SEGMENT = new Stub.Response(200,
            "{\"grant\":\"a\",\"first\":\"1\",\"last\":\"1000\",\"count\":1000,\"increment\":1}");

    @Test
    void waitingThreadsShareASegment() throws Exception {
        CountDownLatch areWaiting = new CountDownLatch(1);
        AtomicInteger grants = new AtomicInteger();
        try (Stub node = new Stub(request -> {
            if (request.method().equals("DELETE")) {
                return new Stub.Response(200, "{\"returned\":\"996\"}");
            }
            await(areWaiting);
            return grants.incrementAndGet() == 1 ? SEGMENT : Stub.problem(503, "no-quorum", true);
        })) {
            Client client = Client.builder(node.endpoint()).build();
            Ranges ranges = new Ranges(client, "order", 1000, Duration.ofSeconds(10));
            List<FutureTask<Long>> draws = new ArrayList<>();
            for (int thread = 0; thread < 4; thread++) {
                FutureTask<Long> draw = new FutureTask<>(ranges::next);
                draws.add(draw);
                Thread drawing = new Thread(draw);
                drawing.start();
                long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(2);
                while (drawing.getState() != Thread.State.TIMED_WAITING && System.nanoTime() < until) {
                    Thread.onSpinWait();
                }
            }
            areWaiting.countDown();
            List<Long> values = new ArrayList<>();
            for (FutureTask<Long> draw : draws) {
                values.add(draw.get(10, TimeUnit.SECONDS));
            }
            assertEquals(List.of(1L, 2L, 3L, 4L), values.stream().sorted().toList());
            assertEquals(new Ranges.Closed(996, 0, null), ranges.end());
        }
    }

    @Test
    void anInterruptedThreadReturnsUnusedValues() {
        try (Stub node = new Stub(request -> request.method().equals("DELETE")
                ? new Stub.Response(200, "{\"returned\":\"999\"}") : SEGMENT)) {
            Ranges ranges = Client.builder(node.endpoint()).build().ranges("order", 1000);
            assertEquals(1, ranges.next());
            Thread.currentThread().interrupt();
            assertEquals(new Ranges.Closed(999, 0, null), ranges.end());
            assertTrue(Thread.interrupted());
        } finally {
            Thread.interrupted();
        }
    }

    @Test
    void droppedRangesReturnTheirValues() throws InterruptedException {
        try (Stub node = new Stub(request -> request.method().equals("DELETE")
                ? new Stub.Response(200, "{\"returned\":\"999\"}") : SEGMENT)) {
            draw(Client.builder(node.endpoint()).build());
            for (int collections = 0; returns(node) == 0 && collections < 1000; collections++) {
                System.gc();
                Thread.sleep(10);
            }
            assertEquals(1, returns(node));
        }
    }

    private static void draw(Client client) {
        assertEquals(1, client.ranges("order", 1000).next());
    }

    private static long returns(Stub node) {
        synchronized (node.requests) {
            return node.requests.stream().filter(request -> request.method().equals("DELETE")).count();
        }
    }

    @Test
    void aReturnWhoseResponseIsLostCountsNoValuesAsLost() {
        AtomicInteger returns = new AtomicInteger();
        try (Stub node = new Stub(request -> {
            if (!request.method().equals("DELETE")) {
                return SEGMENT;
            }
            return returns.incrementAndGet() == 1 ? new Stub.Response(0, "")
                    : Stub.problem(409, "grant-superseded", false);
        })) {
            Ranges ranges = Client.builder(node.endpoint()).build().ranges("order", 1000);
            assertEquals(1, ranges.next());
            Ranges.Closed closed = ranges.end();
            assertEquals(0, closed.returned() + closed.lost());
            assertTrue(closed.why().startsWith("it is unknown whether 999 values were returned"), closed.why());
        }
    }

    @Test
    void theReasonWhyThereIsNoValueIsNamed() {
        Stub gone = new Stub(request -> SEGMENT);
        gone.close();
        Client client = Client.builder(gone.endpoint()).build();
        try (Ranges ranges = new Ranges(client, "order", 1000, Duration.ofSeconds(2))) {
            SeqdException failed = assertThrows(SeqdException.class, ranges::next);
            assertEquals("unreachable", failed.code());
            assertTrue(failed.retryable());
        }
        // Each segment has the same values.
        try (Stub node = new Stub(request -> SEGMENT);
                Ranges ranges = Client.builder(node.endpoint()).build().ranges("order", 1000)) {
            for (int drawn = 0; drawn < 1000; drawn++) {
                ranges.next();
            }
            assertEquals("sequence-cycled", assertThrows(SeqdException.class, ranges::next).code());
        }
    }

    private static void await(CountDownLatch latch) {
        try {
            assertTrue(latch.await(10, TimeUnit.SECONDS));
        } catch (InterruptedException interrupted) {
            throw new IllegalStateException(interrupted);
        }
    }
}
