package io.seqd.client;

import java.util.concurrent.CompletableFuture;
import java.util.function.LongSupplier;

/**
 * A lock that this process holds until it is released or lost. A thread renews it when two thirds of its time remain.
 *
 * <p>The guard computes the earliest end of the hold, counted from before the answered request was sent, by
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
    private final HoldState state;

    private LockGuard(Locks locks, String name, Hold hold, long ttlMs, LongSupplier clock) {
        this.locks = locks;
        this.name = name;
        this.hold = hold;
        this.ttlMs = ttlMs;
        this.clock = clock;
        this.state = new HoldState(ttlMs, hold.untilMs());
        this.keeper = new Thread(this::keep, "seqd-lock");
        keeper.setDaemon(true);
    }

    static LockGuard acquire(Client client, String name, LockOptions options) {
        return acquire(new Locks.OfCluster(client), name, options, BootClock.SYSTEM);
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
        long now = clock.getAsLong();
        LockLostException reason = state.lost(now);
        if (reason != null) {
            // The threads that would report it may have been stopped with the process.
            end(reason);
            throw reason;
        }
        return state.untilMs() - now;
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

    /**
     * Completes when the lock is lost. Work that depends on the lock must then stop. A release cancels it, so that the
     * stages that depend on it do not run.
     */
    public CompletableFuture<LockLostException> lost() {
        return lost.copy();
    }

    /** Releases the lock. Throws if no node confirmed that: the hold then expires. A lost lock is no error. */
    public void release() {
        boolean isLost = state.lost(clock.getAsLong()) != null;
        state.lose(new LockLostException("released", "the lock was released", null));
        lost.cancel(false);
        keeper.interrupt();
        try {
            Hold.release(locks, name, hold.lease(), isLost);
        } catch (SeqdException unconfirmed) {
            if (!isLost) {
                throw unconfirmed;
            }
        }
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

    private void end(LockLostException reason) {
        if (!reason.reason().equals("released") && lost.complete(reason) && Thread.currentThread() != keeper) {
            keeper.interrupt();
        }
    }

    private void watch() {
        try {
            while (isHeld()) {
                Thread.sleep(Math.min(LOOK_EVERY_MS, Math.max(1, state.untilMs() - clock.getAsLong())));
            }
        } catch (InterruptedException ended) {
            // Nobody interrupts this thread. `check` finds the end of the hold by itself.
            Thread.currentThread().interrupt();
        }
    }

    private void keep() {
        try {
            while (isHeld()) {
                // Two thirds of the known time remain as a reserve for failed renewals.
                long due = state.untilMs() - ttlMs / 3 * 2 - clock.getAsLong();
                if (due > 0) {
                    Thread.sleep(Math.min(due, LOOK_EVERY_MS));
                } else if (!renew()) {
                    Thread.sleep(Math.min(ttlMs / 20, 1000));
                }
            }
        } catch (InterruptedException ended) {
            // Only `end` interrupts this thread.
            Thread.currentThread().interrupt();
        }
    }

    private boolean renew() throws InterruptedException {
        long now = clock.getAsLong();
        long left = Math.max(1, state.untilMs() - now);
        try {
            long limit = Math.min(Math.max(ttlMs / 3, Hold.LEAST_LIMIT_MS), left);
            Answer held = locks.renew(name, Hold.renewal(hold.lease(), ttlMs), limit);
            state.renewed(held.integer("expires_in_ms"), now - BootClock.RESOLUTION_MS, clock.getAsLong());
            return true;
        } catch (SeqdException failed) {
            if (Thread.interrupted()) {
                throw new InterruptedException();
            }
            return state.refused(failed);
        } catch (RuntimeException unreadable) {
            // No response may end this thread.
            return state.refused(new SeqdException("bad-answer", String.valueOf(unreadable.getMessage()), false,
                    unreadable));
        }
    }
}
