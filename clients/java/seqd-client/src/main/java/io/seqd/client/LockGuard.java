package io.seqd.client;

import java.util.concurrent.CompletableFuture;
import java.util.function.LongSupplier;

/**
 * A lock that this process holds until it is released or lost. A thread renews it when two thirds of its time remain.
 *
 * <p>The guard knows until when the hold lasts <em>at least</em>: counted from before the answered request was sent, by
 * a clock that includes suspended time. From then on it reports the lock as lost, whether or not the cluster can be
 * reached. The protected resource should check the {@link #token()} nevertheless: a process can be stopped between the
 * check and the action.
 */
public final class LockGuard implements AutoCloseable {
    /** The interval of the readings of the clock, because timers do not advance while the machine is suspended. */
    private static final long LOOK_EVERY_MS = 100;

    private final Locks locks;
    private final String name;
    private final Hold hold;
    private final long ttlMs;
    private final LongSupplier clock;
    private final CompletableFuture<LockLostException> lost = new CompletableFuture<>();
    private final Thread keeper;
    private volatile long untilMs;
    private volatile SeqdException why;

    private LockGuard(Locks locks, String name, Hold hold, long ttlMs, LongSupplier clock) {
        this.locks = locks;
        this.name = name;
        this.hold = hold;
        this.ttlMs = ttlMs;
        this.clock = clock;
        this.untilMs = hold.untilMs();
        this.keeper = new Thread(this::keep, "seqd-lock");
        keeper.setDaemon(true);
    }

    static LockGuard acquire(Client client, String name, LockOptions options) {
        return acquire(new Locks.OfCluster(client), name, options, new BootClock());
    }

    static LockGuard acquire(Locks locks, String name, LockOptions options, LongSupplier clock) {
        Hold hold = Client.read(() -> Hold.acquire(locks, name, options, clock));
        LockGuard guard = new LockGuard(locks, name, hold, options.ttl.toMillis(), clock);
        // A second thread: the requests of the first one may take as long as the hold.
        Thread watch = new Thread(guard::watch, "seqd-lock-watch");
        watch.setDaemon(true);
        watch.start();
        guard.keeper.start();
        return guard;
    }

    /** Returns the fencing token, which is greater than that of every earlier grant of any lock. */
    public long token() {
        return hold.token();
    }

    /** Returns the name of the lock. */
    public String name() {
        return name;
    }

    /** Returns for how many milliseconds the lock is held at least. Throws if it is no longer held. */
    public long check() throws LockLostException {
        LockLostException known = lost.getNow(null);
        if (known != null) {
            throw known;
        }
        long left = untilMs - clock.getAsLong();
        if (left <= 0) {
            // The threads that would report it may have been stopped with the process.
            lose(expired());
            throw lost.join();
        }
        return left;
    }

    /** Returns whether the lock is held. */
    public boolean isHeld() {
        try {
            check();
            return true;
        } catch (LockLostException gone) {
            return false;
        }
    }

    /** Completes when the lock is lost or released. Work that depends on the lock must then stop. */
    public CompletableFuture<LockLostException> lost() {
        return lost.copy();
    }

    /** Releases the lock. Throws if no node confirmed that: the hold then expires. A lost lock is no error. */
    public void release() {
        lose(new LockLostException("released", "the lock was released", null));
        Hold.release(locks, name, hold.lease());
    }

    /** Releases the lock. If no node confirms that, the hold expires. */
    @Override
    public void close() {
        try {
            release();
        } catch (SeqdException unconfirmed) {
            // The hold expires after its ttl.
        }
    }

    private LockLostException expired() {
        SeqdException last = why;
        return new LockLostException("expired", "the lock expired because it was not renewed in time"
                + (last == null ? "" : ": " + last.getMessage()), last);
    }

    private void lose(LockLostException reason) {
        if (lost.complete(reason) && Thread.currentThread() != keeper) {
            keeper.interrupt();
        }
    }

    private void watch() {
        try {
            while (isHeld()) {
                Thread.sleep(Math.min(LOOK_EVERY_MS, Math.max(1, untilMs - clock.getAsLong())));
            }
        } catch (InterruptedException ended) {
            lose(expired());
        }
    }

    private void keep() {
        while (!lost.isDone()) {
            try {
                // Two thirds of the known time remain as a reserve for failed renewals.
                long due = untilMs - ttlMs / 3 * 2 - clock.getAsLong();
                if (due > 0) {
                    Thread.sleep(Math.min(due, LOOK_EVERY_MS));
                } else if (!renew()) {
                    Thread.sleep(Math.min(ttlMs / 20, 1000));
                }
            } catch (InterruptedException ended) {
                // The loop ends: only `lose` interrupts this thread.
                return;
            }
        }
    }

    private boolean renew() throws InterruptedException {
        long now = clock.getAsLong();
        long left = untilMs - now;
        if (left <= 0) {
            lose(expired());
            return true;
        }
        try {
            long limit = Math.min(Math.max(ttlMs / 3, Hold.LEAST_LIMIT_MS), left);
            Answer held = locks.renew(name, Hold.renewal(hold.lease(), ttlMs), limit);
            long until = Hold.lasts(held.integer("expires_in_ms"), now - BootClock.RESOLUTION_MS, ttlMs);
            // A hold that has expired by this clock stays lost, whatever arrives later.
            if (until > clock.getAsLong() && isHeld()) {
                untilMs = Math.max(untilMs, until);
            }
            return true;
        } catch (SeqdException failed) {
            Locks.Verdict verdict = Locks.Verdict.of(failed);
            if (verdict == Locks.Verdict.HELD || verdict == Locks.Verdict.NOT_HELD) {
                lose(new LockLostException("lease-lost", "the cluster reports that the lock is no longer held: "
                        + failed.getMessage(), failed));
                return true;
            }
            why = failed;
        } catch (IllegalArgumentException unreadable) {
            why = new SeqdException("bad-answer", unreadable.getMessage(), false, unreadable);
        }
        if (Thread.interrupted()) {
            throw new InterruptedException();
        }
        return false;
    }
}
