package io.seqd.client;

import java.util.concurrent.ThreadLocalRandom;

/** The waits between requests of a generator or of ranges: short, spread over processes, bounded from below. */
final class Pace {
    private static final long FIRST_MS = 300;
    private static final long MOST_MS = 2_000;
    /** The longest wait that a response can request: a worker may be released before the announced time. */
    private static final long LONGEST_ASKED_MS = 5_000;
    private static final long FOR_GOOD_MS = 10_000;

    private int failures;

    /** After a success: slightly before it is due, so that processes that started together drift apart. */
    long afterSuccess(long dueMs) {
        failures = 0;
        return (long) (dueMs * (0.85 + 0.15 * ThreadLocalRandom.current().nextDouble()));
    }

    /** After a failure, which may be permanent. {@code askedMs} is the wait that the response requests. */
    long after(boolean isForGood, long askedMs) {
        double spread = 1 + 0.25 * ThreadLocalRandom.current().nextDouble();
        if (isForGood) {
            return (long) (FOR_GOOD_MS * spread);
        }
        long doubled = Math.min(FIRST_MS << Math.min(failures, 4), MOST_MS);
        failures++;
        return (long) (Math.max(doubled, Math.min(askedMs, LONGEST_ASKED_MS)) * spread);
    }
}
