package io.seqd.client;

import java.time.Duration;

/** The options for acquiring and keeping a lock. */
public final class LockOptions {
    private static final Duration LEAST = Duration.ofMillis(100);
    private static final Duration MOST = Duration.ofHours(24);

    final String owner;
    Duration ttl = Duration.ofSeconds(30);
    Duration wait;
    int permits = 1;
    boolean shared;
    Duration lockDelay = Duration.ZERO;

    private LockOptions(String owner) {
        this.owner = owner;
    }

    /** Returns the defaults for an owner, which is for display: 1 to 128 printable ASCII characters. */
    public static LockOptions ofOwner(String owner) {
        return new LockOptions(owner);
    }

    /** Sets how long a hold lasts without a renewal, 100 ms to 24 h, 30 s by default. */
    public LockOptions ttl(Duration ttl) {
        if (ttl.compareTo(LEAST) < 0 || ttl.compareTo(MOST) > 0) {
            throw SeqdException.invalid("the ttl must be " + LEAST + " to " + MOST + ", not " + ttl);
        }
        this.ttl = ttl;
        return this;
    }

    /** Sets the longest wait for the lock. Null, the default, waits without a limit; zero does not wait. */
    public LockOptions waitFor(Duration wait) {
        this.wait = wait;
        return this;
    }

    /** Sets the number of simultaneous holders, 1 to 1024. All users of a lock must use the same number. */
    public LockOptions permits(int permits) {
        this.permits = permits;
        return this;
    }

    /** Shares the hold with other shared holds. */
    public LockOptions shared(boolean shared) {
        this.shared = shared;
        return this;
    }

    /** Sets the pause after an expired hold during which nobody is granted the lock, up to 60 s. */
    public LockOptions lockDelay(Duration lockDelay) {
        this.lockDelay = lockDelay;
        return this;
    }
}
