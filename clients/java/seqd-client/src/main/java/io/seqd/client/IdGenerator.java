package io.seqd.client;

import java.lang.ref.Reference;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;

/**
 * Mints IDs in this process, with a worker that the cluster has leased to it. A call sends no request.
 *
 * <p>Uniqueness depends only on the fence: a lease is a window of ticks that belongs to no other holder, so a process
 * that is paused, disconnected or has a wrong clock mints nothing that another one mints. A thread renews the lease at
 * a third of its window. While it cannot, minting continues up to the fence and then fails with the reason.
 *
 * <p>Any number of threads may share a generator. {@link #close()} returns the worker. Without it the worker is free
 * after the end of its window. Create one generator per process; end it before the memory of a running process is
 * copied (a checkpoint, or a snapshot of a virtual machine).
 */
public final class IdGenerator implements AutoCloseable {
    /** The largest number of IDs per call: 25 ms of the layout {@code default}. */
    public static final int MAX_COUNT = 100_000;

    private static final int LOOKS_PER_TICK = 20_000;

    private final GeneratorOptions options;
    private final GeneratorKeeper keeper;
    /** Held by the one call that polls the clock for the next millisecond. */
    private final ReentrantLock looking = new ReentrantLock();

    /** Begins to lease a worker and returns at once. The first call for an ID waits for the lease. */
    public IdGenerator(Client client, GeneratorOptions options) {
        this(new ClusterLeases(client), options);
    }

    IdGenerator(Leases leases, GeneratorOptions options) {
        this.options = options;
        GeneratorKeeper made = new GeneratorKeeper(leases, options);
        this.keeper = made;
        made.start();
        Client.CLEANER.register(this, made::abandon);
    }

    /**
     * The current state, for a health check.
     *
     * @param worker the whole worker field, or -1 without a lease
     * @param windowEndsMs the end of the window in Unix milliseconds, or 0
     * @param leases the number of leases since the start; above one if a lease was lost
     * @param error why the last attempt to take or renew a lease failed, or null
     */
    public record Status(int worker, long windowEndsMs, long leases, SeqdException error) {}

    /** Waits until an ID can be minted, at most for the patience of the options. */
    public void ready() {
        mint(0, deadline());
    }

    /** Returns one ID. */
    public long id() {
        try {
            Mint mint = keeper.mint(1);
            if (mint.ids() > 0) {
                return mint.first();
            }
            long deadline = deadline();
            do {
                mint = mint(1, deadline);
            } while (mint.ids() == 0);
            return mint.first();
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /** Returns {@code count} IDs, strictly increasing and from one worker. */
    public long[] ids(int count) {
        if (count < 1 || count > MAX_COUNT) {
            throw SeqdException.invalid("a count is 1 to " + MAX_COUNT + ", not " + count);
        }
        long deadline = deadline();
        long[] ids = new long[count];
        int made = 0;
        int worker = -1;
        while (made < count) {
            Mint mint = mint(count - made, deadline);
            if (mint.worker() != worker) {
                // IDs of two leases need not increase: the earlier ones are skipped.
                made = 0;
                worker = mint.worker();
            }
            for (int at = 0; at < mint.ids(); at++) {
                ids[made++] = mint.first() + at * mint.step();
            }
        }
        return ids;
    }

    /** Returns the current state. */
    public Status status() {
        return keeper.status();
    }

    /**
     * Permanently stops minting, then releases the worker with the last used tick, also on an interrupted thread.
     * Throws {@code not-released} if no node confirmed that in time: the worker is then free after its window.
     */
    @Override
    public void close() {
        try {
            keeper.close(deadline());
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    GeneratorKeeper keeper() {
        return keeper;
    }

    private long deadline() {
        return System.nanoTime() + options.patience.toNanos();
    }

    /** Returns IDs of one tick, with 0 none as soon as one could be minted. */
    private Mint mint(int count, long deadline) {
        try {
            return mintWithin(count, deadline);
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    private Mint mintWithin(int count, long deadline) {
        // The reading may be older than that of another thread: the first wait or refusal is a second reading.
        boolean lookedAgain = false;
        while (true) {
            long attempts = keeper.attempts();
            long wall = options.wallMs.getAsLong();
            Mint mint = keeper.mint(wall, count);
            if (mint.code() == null && mint.waitMs() == 0) {
                return mint;
            }
            if (!lookedAgain && (mint.code() == null || mint.isRefused("clock-behind"))) {
                lookedAgain = true;
            } else if (mint.code() == null) {
                pause(wall, mint.waitMs(), deadline);
            } else if (mint.isRefused("no-lease") || mint.isRefused("window-ended")) {
                keeper.await(mint, attempts, deadline);
            } else if (mint.isRefused("clock-behind") && keeper.isUnused() && leftMs(deadline) >= mint.byMs()) {
                // The window begins in the future, before the deadline.
                sleep(mint.byMs());
            } else {
                // A clock may be right again later.
                boolean isPermanent = mint.isRefused("closed") || mint.isRefused("layout-exhausted");
                throw new SeqdException(mint.code(), mint.detail(), !isPermanent);
            }
        }
    }

    private static long leftMs(long deadline) {
        return TimeUnit.NANOSECONDS.toMillis(deadline - System.nanoTime());
    }

    /** Waits for a tick, or for a clock that is slightly behind. */
    private void pause(long wall, long ms, long deadline) {
        if (leftMs(deadline) < ms) {
            throw new SeqdException("busy", "the worker's ticks are used up; the next begins in " + ms + " ms", true);
        }
        if (ms > 1) {
            sleep(ms);
            return;
        }
        // A sleep is longer than a millisecond and would miss every other tick. One call polls the clock; the others
        // wait for it.
        try {
            if (!looking.tryLock(Math.max(1, leftMs(deadline)), TimeUnit.MILLISECONDS)) {
                throw new SeqdException("busy", "the worker's ticks are used up", true);
            }
        } catch (InterruptedException interrupted) {
            throw interrupted();
        }
        try {
            for (int looks = 0; options.wallMs.getAsLong() < wall + ms; looks++) {
                if (looks == LOOKS_PER_TICK) {
                    sleep(ms);
                    return;
                }
                Thread.yield();
            }
        } finally {
            looking.unlock();
        }
    }

    private static void sleep(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException interrupted) {
            throw interrupted();
        }
    }

    static SeqdException interrupted() {
        Thread.currentThread().interrupt();
        return new SeqdException("interrupted", "the thread was interrupted", false);
    }
}
