package io.seqd.client;

/**
 * Mints the IDs of one worker lease. It reads no clock and never waits.
 *
 * <p>Invariants: each pair of tick and sequence is returned at most once, whatever the clock does; pairs only increase;
 * every tick is at or above the first tick of the lease and below a fence that a node has returned; nothing is minted
 * after {@link #close()}. Create one minter per lease.
 */
final class Minter {
    private final Layout layout;
    private final int worker;
    private final String lease;
    private final long fromTick;
    private final long seed;
    private final int bound;
    private final ClockPolicy policy;
    /** The next unused slot: {@code tick << sequenceBits | sequence}. */
    private long next;
    private long fence;
    private boolean isClosed;

    Minter(Layout layout, int worker, String lease, long fromTick, long fence, ClockPolicy policy) {
        if (worker < 0 || worker >= layout.workers() || fromTick < 0 || fromTick > layout.maxTick() + 1) {
            throw new SeqdException("bad-lease", "the lease of worker " + worker + " from tick " + fromTick
                    + " does not fit its layout " + layout.name(), false);
        }
        this.layout = layout;
        this.worker = worker;
        this.lease = lease;
        this.fromTick = fromTick;
        this.fence = fence;
        this.policy = policy;
        this.bound = Layout.bound(layout.firstSequence());
        // The number of the lease is random. Uniqueness does not depend on the seed.
        this.seed = mix(lease.hashCode());
        this.next = slot(fromTick, 0);
    }

    private long slot(long tick, int sequence) {
        return (tick << layout.sequenceBits()) + sequence;
    }

    private long openTick() {
        return next >> layout.sequenceBits();
    }

    /** Returns the last used tick, or -1 if nothing was minted. */
    synchronized long lastTick() {
        return next == slot(fromTick, 0) ? -1 : next - 1 >> layout.sequenceBits();
    }

    /**
     * Takes up to {@code count} IDs of one tick. With 0 it takes none, and otherwise returns the same as with 1. The
     * check for a rollback comes first: a sequence that begins again in an earlier tick would repeat IDs.
     */
    synchronized Mint mint(long wall, int count) {
        if (isClosed) {
            return Mint.refused("closed", "the generator is closed");
        }
        long last = lastTick();
        long open = openTick();
        long lastBegins = layout.wallAt(last);
        if (last >= 0 && wall < lastBegins) {
            long by = lastBegins - wall;
            if (policy.continueOnRollback()) {
                return open > layout.maxTick() ? full() : take(open, count);
            }
            return by > policy.maxBackwardWaitMs() ? Mint.behind(by, lastBegins)
                    : Mint.await(layout.wallAt(open) - wall);
        }
        if (wall < layout.epochMs()) {
            return Mint.behind(layout.epochMs() - wall, layout.epochMs());
        }
        long now = layout.tickAt(wall);
        if (now > layout.maxTick()) {
            return full();
        }
        if (now < open) {
            // The last tick is full, or the window begins later.
            if (open > layout.maxTick()) {
                return full();
            }
            long ms = layout.wallAt(open) - wall;
            return last < 0 && ms > policy.maxBackwardWaitMs() ? Mint.behind(ms, layout.wallAt(open)) : Mint.await(ms);
        }
        return take(now, count);
    }

    private Mint full() {
        return Mint.refused("layout-exhausted", "layout " + layout.name() + " is full");
    }

    private Mint take(long tick, int count) {
        if (tick >= fence) {
            return Mint.refused("window-ended", "the window ended at " + Mint.time(layout.wallAt(fence)));
        }
        int used = (int) (next & layout.sequences() - 1L);
        int first = tick == openTick() && used > 0 ? used : firstOf(tick, count);
        int ids = Math.min(count, layout.sequences() - first);
        if (ids > 0) {
            next = slot(tick, first) + ids;
        }
        return Mint.ready(ids, layout.join(tick, worker, first), layout.step(), worker);
    }

    /** Returns the first sequence of a fresh tick. */
    private int firstOf(long tick, int count) {
        if (bound > 0) {
            return draw(tick, bound);
        }
        // After a tick that was used completely, the demand is too high to skip sequences.
        if (tick == openTick() && next != slot(fromTick, 0)) {
            return 0;
        }
        return draw(tick, layout.sequences() - Math.min(Math.max(count, 1), layout.sequences()) + 1);
    }

    private int draw(long tick, int below) {
        long drawn = mix(seed ^ mix(tick));
        // The upper half of the unsigned product is less than the bound.
        return (int) (Math.multiplyHigh(drawn, below) + (drawn < 0 ? below : 0));
    }

    /** The finalizer of SplitMix64 (Steele, Lea, Flood 2014). */
    private static long mix(long value) {
        long z = value + 0x9e3779b97f4a7c15L;
        z = (z ^ z >>> 30) * 0xbf58476d1ce4e5b9L;
        z = (z ^ z >>> 27) * 0x94d049bb133111ebL;
        return z ^ z >>> 31;
    }

    /** Raises the fence to one that a node has returned. A lower one has no effect. */
    synchronized void extend(long fence) {
        this.fence = Math.max(this.fence, fence);
    }

    /** Permanently stops minting. */
    synchronized void close() {
        isClosed = true;
    }

    /** Returns the tick to release the worker with: the last used one, or the one before the window. */
    synchronized long releaseTick() {
        long last = lastTick();
        return last >= 0 ? last : fromTick - 1;
    }

    synchronized long fence() {
        return fence;
    }

    /** Returns the end of the window by the wall clock. */
    long endsMs() {
        return layout.wallAt(fence());
    }

    Layout layout() {
        return layout;
    }

    int worker() {
        return worker;
    }

    String lease() {
        return lease;
    }
}
