package io.seqd.client;

import java.lang.ref.Reference;
import java.time.Duration;

/**
 * Draws the values of a segment sequence from memory (docs/ALLOCATORS.md). A granted segment belongs to this object for
 * good: no other caller receives its values, whatever becomes of the process, its clock or its connection.
 *
 * <p>A thread fetches the next segment when a tenth of the current one is used. Values increase (decrease, if the
 * increment is negative) in the order of the draws. Any number of threads may share it. {@link #close()} returns unused
 * values; those of a killed process are lost, at most two segments.
 */
public final class Ranges implements AutoCloseable {
    /** The largest segment that a node grants. */
    public static final int MAX_SIZE = 100_000_000;

    private final RangesKeeper keeper;

    /**
     * The result of closing.
     *
     * @param returned unused values that were returned to the sequence
     * @param lost unused values that are a gap
     * @param why the reason why nothing was returned, or why it is unknown whether something was, or null
     */
    public record Closed(long returned, long lost, String why) {}

    /**
     * The current state, for a health check.
     *
     * @param abandoned values of segments that may have been granted and are never used
     */
    public record Status(long available, long abandoned, SeqdException error) {}

    Ranges(Client client, String name, int size, Duration patience) {
        RangesKeeper made = new RangesKeeper(client, name, size, patience);
        keeper = made;
        Client.CLEANER.register(this, made::abandon);
    }

    /** Returns the next value. Waits for a segment for at most 5 s. */
    public long next() {
        try {
            return keeper.next();
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /** Returns the current state. */
    public Status status() {
        return keeper.status();
    }

    /**
     * Permanently stops draws, and returns unused values, so that they are granted again; also on an interrupted
     * thread.
     */
    public Closed end() {
        try {
            return keeper.end();
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /** As {@link #end()}, without the result. */
    @Override
    public void close() {
        end();
    }
}
