package io.seqd.client;

import java.util.Map;
import java.util.function.LongSupplier;

/** A hold that was granted, and the acquisition of one. */
record Hold(long token, String lease, long untilMs) {
    /** The longest wait of one request that the cluster accepts. */
    private static final long ROUND_MS = 10 * 60 * 1000;
    private static final long AGAIN_MS = 300;
    /** The shortest timeout of a renewal, and that of the release of a lost lock. */
    static final long LEAST_LIMIT_MS = 1_000;
    /** The assumed drift: this clock may be slower than the leader's by one part in a thousand. */
    private static final long DRIFT = 1000;

    /** Returns until when a hold lasts at least. {@code sent} is a time before the request was sent. */
    static long lasts(long expiresInMs, long sent, long ttlMs) {
        long left = Math.min(expiresInMs, ttlMs);
        return sent + left - (left + DRIFT - 1) / DRIFT;
    }

    /** Acquires the lock. One acquisition is repeated with the same nonce until it has a response. */
    static Hold acquire(Locks locks, String name, LockOptions options, LongSupplier clock) {
        Long ends = options.wait == null ? null : clock.getAsLong() + options.wait.toMillis();
        String nonce = Client.nonce();
        // Whether the cluster may have granted the lock to this nonce.
        boolean wasSent = false;
        while (true) {
            long left = ends == null ? ROUND_MS : Math.max(0, Math.min(ends - clock.getAsLong(), ROUND_MS));
            Map<String, Object> request = Client.fields("owner", options.owner, "ttl_ms", options.ttl.toMillis(),
                    "wait_ms", left, "nonce", nonce, "permits", options.permits, "shared", options.shared,
                    "lock_delay_ms", options.lockDelay.toMillis());
            long sent = clock.getAsLong() - BootClock.RESOLUTION_MS;
            try {
                Answer held = locks.acquire(name, request);
                Hold hold = confirm(locks, name, options, held, sent, clock);
                if (hold != null) {
                    return hold;
                }
                // The hold expired before it was confirmed, or the response to an applied renewal was lost.
                giveBack(locks, name, held.text("lease"));
                nonce = Client.nonce();
                wasSent = false;
            } catch (SeqdException failed) {
                wasSent |= failed.isUnanswered();
                Locks.Verdict verdict = Locks.Verdict.of(failed);
                boolean isOver = ends != null && ends <= clock.getAsLong();
                boolean passes = verdict == Locks.Verdict.HELD || verdict == Locks.Verdict.AGAIN;
                if (passes && !isOver && !Thread.currentThread().isInterrupted()) {
                    if (verdict == Locks.Verdict.HELD) {
                        // The wait of one request has ended, and with it the place in the queue.
                        nonce = Client.nonce();
                        wasSent = false;
                        continue;
                    }
                    if (hasSlept(AGAIN_MS)) {
                        continue;
                    }
                    failed = IdGenerator.interrupted();
                }
                // The response to an earlier request may be the one that was cut off.
                if (wasSent && Thread.currentThread().isInterrupted()) {
                    withdraw(locks, name, request);
                }
                throw failed;
            }
        }
    }

    /** Renews a hold after a wait, because its known time is counted from before the wait. Null if it expired. */
    private static Hold confirm(Locks locks, String name, LockOptions options, Answer held, long sent,
            LongSupplier clock) {
        long ttlMs = options.ttl.toMillis();
        String lease = held.text("lease");
        long token = held.integer("token");
        long until = lasts(held.integer("expires_in_ms"), sent, ttlMs);
        if (until - clock.getAsLong() > ttlMs / 2) {
            return new Hold(token, lease, until);
        }
        // The grant may be as recent as the response.
        long over = clock.getAsLong() + ttlMs;
        while (true) {
            long renewed = clock.getAsLong() - BootClock.RESOLUTION_MS;
            try {
                Answer answer = locks.renew(name, renewal(lease, ttlMs), Math.max(ttlMs / 3, LEAST_LIMIT_MS));
                return new Hold(token, lease, lasts(answer.integer("expires_in_ms"), renewed, ttlMs));
            } catch (SeqdException failed) {
                Locks.Verdict verdict = Locks.Verdict.of(failed);
                if (verdict == Locks.Verdict.NEVER) {
                    giveBack(locks, name, lease);
                    throw failed;
                }
                if (verdict != Locks.Verdict.AGAIN || over <= clock.getAsLong()) {
                    return null;
                }
                sleep(Math.min(AGAIN_MS, ttlMs / 10));
            }
        }
    }

    static Map<String, Object> renewal(String lease, long ttlMs) {
        return Client.fields("lease", lease, "ttl_ms", ttlMs);
    }

    /**
     * Releases a hold that was granted to a request whose response was cut off by an interrupt. The caller waits for
     * it, because its process may end next.
     */
    private static void withdraw(Locks locks, String name, Map<String, Object> request) {
        try {
            String lease = Client.uninterrupted(() -> locks.find(name, request).text("lease"));
            giveBack(locks, name, lease);
        } catch (SeqdException | IllegalArgumentException ignored) {
            // There is no hold, or it expires.
        }
    }

    private static void giveBack(Locks locks, String name, String lease) {
        try {
            release(locks, name, lease, false);
        } catch (SeqdException ignored) {
            // If the cluster does not respond, the hold expires.
        }
    }

    /**
     * Releases a hold, with a few retries because others wait for it; also on an interrupted thread. A hold that has
     * ended counts as released. One that is lost is released by one short attempt, because its holder must act on the
     * loss.
     */
    static void release(Locks locks, String name, String lease, boolean isLost) {
        Client.uninterrupted(() -> {
            if (isLost) {
                locks.release(name, lease, LEAST_LIMIT_MS);
            } else {
                releaseWithRetries(locks, name, lease);
            }
            return null;
        });
    }

    private static void releaseWithRetries(Locks locks, String name, String lease) {
        for (int attempts = 1;; attempts++) {
            try {
                locks.release(name, lease, Long.MAX_VALUE);
                return;
            } catch (SeqdException failed) {
                Locks.Verdict verdict = Locks.Verdict.of(failed);
                if (verdict == Locks.Verdict.NOT_HELD || verdict == Locks.Verdict.HELD) {
                    return;
                }
                if (verdict == Locks.Verdict.NEVER || attempts == 5) {
                    throw failed;
                }
            }
            sleep(100L * attempts);
        }
    }

    private static void sleep(long ms) {
        if (!hasSlept(ms)) {
            throw IdGenerator.interrupted();
        }
    }

    /** Returns false if the thread was interrupted. */
    static boolean hasSlept(long ms) {
        try {
            Thread.sleep(ms);
            return true;
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            return false;
        }
    }
}
