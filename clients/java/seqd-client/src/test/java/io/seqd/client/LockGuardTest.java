package io.seqd.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongSupplier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The guard with a cluster and a clock of a script. */
class LockGuardTest {
    private static final long TTL_MS = 3000;

    private final AtomicLong now = new AtomicLong(1_000_000);
    private final AtomicInteger renewals = new AtomicInteger();
    private final AtomicInteger releases = new AtomicInteger();
    private RuntimeException onRelease;

    private LockGuard guard(RuntimeException onRenewal) {
        return guard(onRenewal, now::get);
    }

    private LockGuard guard(RuntimeException onRenewal, LongSupplier clock) {
        Locks locks = new Locks() {
            private Answer held() {
                return new Answer(Client.fields("token", "7", "lease", "secret", "expires_in_ms", TTL_MS));
            }

            @Override
            public Answer acquire(String name, Map<String, Object> request) {
                return held();
            }

            @Override
            public Answer find(String name, Map<String, Object> request) {
                return held();
            }

            @Override
            public Answer renew(String name, Map<String, Object> request, long limitMs) {
                renewals.incrementAndGet();
                if (onRenewal != null) {
                    throw onRenewal;
                }
                return held();
            }

            @Override
            public void release(String name, String lease, long limitMs) {
                releases.incrementAndGet();
                if (onRelease != null) {
                    throw onRelease;
                }
            }
        };
        return LockGuard.acquire(locks, "job", LockOptions.ofOwner("test").ttl(Duration.ofMillis(TTL_MS)), clock);
    }

    @Test
    void aHoldIsCountedFromBeforeTheRequestAndLessTheDrift() {
        LockGuard guard = guard(null);
        assertEquals(7, guard.token());
        assertEquals(TTL_MS - TTL_MS / 1000 - BootClock.RESOLUTION_MS, guard.check());
        Thread.currentThread().interrupt();
        guard.close();
        assertTrue(Thread.interrupted());
        assertTrue(guard.lost().isCompletedExceptionally());
        LockLostException lost = assertThrows(LockLostException.class, guard::check);
        assertEquals("released", lost.reason());
        assertEquals("lock-lost", lost.code());
        assertEquals(1, releases.get());
    }

    @Test
    void itIsRenewedAtTwoThirds() throws Exception {
        LockGuard guard = guard(null);
        now.addAndGet(TTL_MS / 3 + 1);
        long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(10);
        while (guard.check() < TTL_MS - 100 && System.nanoTime() < until) {
            Thread.sleep(10);
        }
        assertTrue(guard.check() > TTL_MS - 100);
        guard.release();
    }

    @Test
    void itIsLostAtItsTimeWhateverTheClusterDoes() throws Exception {
        LockGuard guard = guard(new SeqdException("no-answer", "silence", true));
        now.addAndGet(TTL_MS - 100);
        assertTrue(guard.isHeld());
        now.addAndGet(100);
        // The next look at the lock finds it lost, before any thread has reported it.
        assertFalse(guard.isHeld());
        assertEquals("ran-out", guard.lost().get(10, TimeUnit.SECONDS).reason());
        guard.close();
    }

    @Test
    void theClusterMayReportAnEarlierLoss() throws Exception {
        LockGuard guard = guard(new SeqdException("lease-lost", "broken", false));
        now.addAndGet(TTL_MS / 3 + 1);
        assertEquals("taken-away", guard.lost().get(10, TimeUnit.SECONDS).reason());
        assertFalse(guard.isHeld());
        guard.close();
    }

    @Test
    void aLostLockIsReleasedByOneAttemptAndWithoutAnError() {
        onRelease = new SeqdException("no-answer", "silence", true);
        LockGuard guard = guard(null);
        now.addAndGet(TTL_MS);
        guard.release();
        assertEquals(1, releases.get());
        assertEquals("ran-out", assertThrows(LockLostException.class, guard::check).reason());
    }

    @Test
    void aHoldIsRenewedAndEndsInTimeWhileTheBootClockCannotBeRead(@TempDir Path folder) throws Exception {
        Path uptime = Files.writeString(folder.resolve("uptime"), "100.00 1.00\n");
        LockGuard guard = guard(new SeqdException("no-answer", "silence", true), new BootClock(uptime));
        Files.writeString(uptime, "");
        assertEquals("ran-out", guard.lost().get(10, TimeUnit.SECONDS).reason());
        assertTrue(renewals.get() > 0);
    }

    @Test
    void aReleaseIsSentWhileTheBootClockCannotBeRead(@TempDir Path folder) throws Exception {
        Path uptime = Files.writeString(folder.resolve("uptime"), "100.00 1.00\n");
        LockGuard guard = guard(null, new BootClock(uptime));
        Files.writeString(uptime, "");
        guard.release();
        assertEquals(1, releases.get());
    }

    @Test
    void theHoldOfAnInterruptedWaitIsReleased() {
        Thread caller = Thread.currentThread();
        try (Stub node = new Stub(request -> {
            if (request.path().endsWith("/acquire") && !request.body().contains("\"wait_ms\":0")) {
                caller.interrupt();
                return new Stub.Response(Stub.NEVER, "");
            }
            return new Stub.Response(200, "{\"token\":\"7\",\"lease\":\"secret\",\"expires_in_ms\":60000}");
        })) {
            Client client = Client.builder(node.endpoint()).build();
            SeqdException failed = assertThrows(SeqdException.class,
                    () -> client.lock("job", LockOptions.ofOwner("test")));
            assertTrue(Thread.interrupted());
            assertEquals("outcome-unknown", failed.code());
            assertEquals(3, node.requests.size(), node.requests.toString());
            Answer first = Answer.of(Json.read(node.requests.get(0).body()));
            Answer second = Answer.of(Json.read(node.requests.get(1).body()));
            assertEquals(first.text("nonce"), second.text("nonce"));
            assertTrue(node.requests.get(2).path().endsWith("/release"));
            assertTrue(node.requests.get(2).body().contains("secret"));
        } finally {
            Thread.interrupted();
        }
    }

    @Test
    void aLockDoesNotWaitForSomethingElseThanSeqd() {
        LockOptions options = LockOptions.ofOwner("test").waitFor(Duration.ofSeconds(2));
        for (int status : new int[] {404, 502}) {
            try (Stub other = new Stub(request -> new Stub.Response(status, "<html>"))) {
                Client client = Client.builder(other.endpoint()).build();
                boolean isProxy = status >= 500;
                SeqdException failed = assertThrows(SeqdException.class, () -> client.lock("job",
                        isProxy ? options : LockOptions.ofOwner("test")));
                assertEquals(isProxy ? "outcome-unknown" : "bad-answer", failed.code());
                assertEquals(isProxy, other.requests.size() > 1, other.requests.toString());
            }
        }
    }

    @Test
    void anInterruptDuringAReleaseDoesNotEndIt() {
        Thread caller = Thread.currentThread();
        try (Stub node = new Stub(request -> {
            if (!request.path().endsWith("/release")) {
                return new Stub.Response(200, "{\"token\":\"7\",\"lease\":\"secret\",\"expires_in_ms\":60000}");
            }
            caller.interrupt();
            return releases.incrementAndGet() == 1 ? Stub.problem(503, "no-quorum", true)
                    : new Stub.Response(200, "{}");
        })) {
            LockOptions options = LockOptions.ofOwner("test").ttl(Duration.ofMinutes(1));
            LockGuard guard = Client.builder(node.endpoint()).build().lock("job", options);
            guard.release();
            assertTrue(Thread.interrupted());
            assertEquals(2, releases.get());
        } finally {
            Thread.interrupted();
        }
    }
}
