package io.seqd.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.HashSet;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;

/** Minting under clock steps, and a generator whose lease is lost. */
class GeneratorTest {
    private static Layout layout(String firstSequence, String order) {
        return new Layout("small", 1000, 1, 41, 0, 4, 3, order, firstSequence);
    }

    @Test
    void randomClocksNeverRepeatAnIdOrLeaveTheWindow() {
        long total = 0;
        for (int seed = 0; seed < 300; seed++) {
            Random random = new Random(seed);
            String first = new String[] {"zero", "spread", "random:5"}[seed % 3];
            Layout layout = layout(first, seed % 2 == 0 ? "tick-worker-sequence" : "tick-sequence-worker");
            ClockPolicy policy = new ClockPolicy(20, seed % 5 == 0, 1000);
            Minter minter = new Minter(layout, 3, "l" + seed, 500, 600, policy);
            Set<Long> seen = new HashSet<>();
            long fence = 600;
            long wall = 1490;
            Layout.Parts last = null;
            for (int step = 0; step < 2000; step++) {
                wall += random.nextInt(10) == 0 ? random.nextInt(200) - 100 : random.nextInt(2);
                if (random.nextInt(50) == 0) {
                    fence += 50;
                    minter.extend(fence);
                }
                Mint mint = minter.mint(wall, 1 + random.nextInt(12));
                for (int at = 0; at < mint.ids(); at++) {
                    long id = mint.first() + at * mint.step();
                    Layout.Parts parts = layout.unpack(id);
                    assertTrue(seen.add(id), "seed " + seed + ": " + parts);
                    assertEquals(3, parts.worker());
                    assertTrue(parts.tick() >= 500 && parts.tick() < fence, "seed " + seed + ": " + parts);
                    assertTrue(policy.continueOnRollback() || parts.tick() <= layout.tickAt(wall));
                    assertTrue(last == null || parts.tick() > last.tick()
                            || parts.tick() == last.tick() && parts.sequence() > last.sequence());
                    last = parts;
                }
            }
            total += seen.size();
            minter.close();
            assertEquals("closed", minter.mint(wall + 10_000, 1).code());
            assertEquals(last == null ? 499 : last.tick(), minter.releaseTick());
        }
        assertTrue(total > 10_000, "minted only " + total);
    }

    @Test
    void aJumpAheadIsTrustedAfterFiveSteadySeconds() {
        ClockGuard guard = new ClockGuard(ClockPolicy.defaults());
        assertEquals(null, guard.judge(10_000, 0));
        assertEquals("clock-jumped", guard.judge(12_000, 100).code());
        assertEquals("clock-jumped", guard.judge(16_900, 5_000).code());
        assertEquals(null, guard.judge(17_000, 5_100));
        // A clock that is set back, but not before a used tick, is harmless.
        assertEquals(null, guard.judge(9_000, 5_200));
        guard.used(20_000);
        assertEquals("clock-behind", guard.judge(9_000, 5_300).code());
        assertEquals(30, guard.judge(19_970, 5_400).waitMs());
    }

    /** A cluster in memory with a window of 2 s from the time of a lease, which a script can lose. */
    private static final class Fake implements Leases {
        final AtomicReference<SeqdException> onRenewal = new AtomicReference<>();
        int leased;
        long lastTick = -2;
        private long fence;

        private Answer answer(int worker) {
            fence = Math.max(fence, System.currentTimeMillis() - 1000 + 2000);
            return new Answer(Client.fields("id", worker, "lease", "lease" + worker, "from_tick",
                    System.currentTimeMillis() - 1000, "fence_tick", fence, "renew_after_ms", 300, "layout",
                    Client.fields("name", "small", "epoch_ms", 1000, "tick_ms", 1, "time_bits", 45, "datacenter_bits",
                            0, "worker_bits", 4, "sequence_bits", 12, "order", "tick-worker-sequence",
                            "first_sequence", "zero")));
        }

        @Override
        public synchronized Answer lease(GeneratorOptions options) {
            return answer(++leased);
        }

        @Override
        public synchronized Answer renew(GeneratorOptions options, Minter minter, long limitMs) {
            SeqdException failed = onRenewal.getAndSet(null);
            if (failed != null) {
                throw failed;
            }
            return answer(minter.worker());
        }

        @Override
        public synchronized void release(GeneratorOptions options, int worker, String lease, long lastTick) {
            this.lastTick = lastTick;
        }
    }

    @Test
    void aLostLeaseIsReplacedAndTheLastTickReturned() {
        Fake fake = new Fake();
        fake.onRenewal.set(new SeqdException("lease-lost", "gone", false));
        IdGenerator generator = new IdGenerator(fake, GeneratorOptions.ofOwner("test"));
        Set<Long> seen = new HashSet<>();
        while (generator.status().leases() < 2) {
            assertTrue(seen.add(generator.id()));
        }
        generator.ids(10_000);
        generator.close();
        assertEquals("closed", assertThrows(SeqdException.class, generator::id).code());
        assertTrue(fake.lastTick > 0);
    }

    @Test
    void anInterruptedThreadReleasesTheWorker() {
        Fake fake = new Fake();
        IdGenerator generator = new IdGenerator(fake, GeneratorOptions.ofOwner("test"));
        generator.id();
        Thread.currentThread().interrupt();
        try {
            generator.close();
            assertTrue(Thread.interrupted());
        } finally {
            Thread.interrupted();
        }
        assertTrue(fake.lastTick > 0);
        SeqdException closed = assertThrows(SeqdException.class, generator::id);
        assertTrue(closed.is("closed") && !closed.retryable());
    }

    @Test
    void aDroppedGeneratorStopsRenewingAndReleasesNothing() throws InterruptedException {
        Fake fake = new Fake();
        GeneratorKeeper keeper = dropped(fake);
        for (int collections = 0; !keeper.isEnded() && collections < 1000; collections++) {
            System.gc();
            Thread.sleep(10);
        }
        assertTrue(keeper.isEnded());
        assertEquals(-2, fake.lastTick);
    }

    private static GeneratorKeeper dropped(Fake fake) {
        IdGenerator generator = new IdGenerator(fake, GeneratorOptions.ofOwner("test"));
        generator.id();
        return generator.keeper();
    }

    @Test
    void aReadingBeforeThatOfAnotherThreadIsReplacedByASecondOne() {
        Fake fake = new Fake();
        AtomicLong stale = new AtomicLong();
        try (IdGenerator generator = new IdGenerator(fake, GeneratorOptions.ofOwner("test")
                .wallClock(() -> System.currentTimeMillis() - stale.getAndSet(0)))) {
            for (int step = 0; step < 20; step++) {
                generator.id();
                stale.set(100);
                generator.ids(1);
            }
        }
    }

    @Test
    void aWindowThatIsNotRenewedEndsWithItsReason() {
        Fake fake = new Fake();
        IdGenerator generator = new IdGenerator(new Leases() {
            @Override
            public Answer lease(GeneratorOptions options) {
                return fake.lease(options);
            }

            @Override
            public Answer renew(GeneratorOptions options, Minter minter, long limitMs) {
                throw new SeqdException("unreachable", "no node", true);
            }

            @Override
            public void release(GeneratorOptions options, int worker, String lease, long lastTick) {
                fake.release(options, worker, lease, lastTick);
            }
        }, GeneratorOptions.ofOwner("test").patience(Duration.ofMillis(200)));
        SeqdException ended = assertThrows(SeqdException.class, () -> {
            while (true) {
                generator.id();
            }
        });
        assertEquals("window-ended", ended.code());
        assertTrue(ended.getMessage().contains("no node"), ended.getMessage());
        generator.close();
    }
}
