package io.seqd.client;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/**
 * The thread of one generator: takes a lease, renews it, takes another if it is lost, and releases it at the end.
 *
 * <p>The fence comes from the cluster's clocks, so the lease is renewed whatever the clock of this process shows.
 */
final class GeneratorKeeper {
    /** The longest pause between two readings of the clock: the guard needs regular ones to detect jumps. */
    private static final long LONGEST_READING_MS = 1_000;
    /** A call that finds the window ended causes an early renewal, but not more often than this. */
    private static final long BETWEEN_WOKEN_MS = 1_000;
    /** The shortest timeout of a renewal: a slow round of consensus. */
    private static final long LEAST_LIMIT_MS = 1_000;
    private static final long LEAST_RENEW_AFTER_MS = 250;
    private static final long AGAIN_MS = 300;
    /** A renewal that ended within this time counts as recent. */
    private static final long FRESH_MS = 1_000;

    private final Leases leases;
    private final GeneratorOptions options;
    private final Thread thread;
    private final Pace pace = new Pace();
    private long renewAfterMs;

    /** Guards the fields below. It is never held during a request. */
    private final ReentrantLock lock = new ReentrantLock();
    private final Condition changed = lock.newCondition();
    private final ClockGuard guard;
    private volatile Minter minter;
    private volatile long attempts;
    private volatile long lastAttemptMs;
    private volatile SeqdException error;
    private long taken;
    private boolean wake;
    private boolean isRenewing;
    private volatile boolean isClosing;
    private long closeBy;
    private boolean isEnded;
    private SeqdException notReleased;

    GeneratorKeeper(Leases leases, GeneratorOptions options) {
        this.leases = leases;
        this.options = options;
        this.guard = new ClockGuard(options.clock);
        this.thread = new Thread(this::keep, "seqd-id-generator");
        thread.setDaemon(true);
    }

    void start() {
        thread.start();
    }

    private static long monoMs() {
        return System.nanoTime() / 1_000_000;
    }

    Mint mint(int count) {
        return mint(options.wallMs.getAsLong(), count);
    }

    Mint mint(long wall, int count) {
        return mint(wall, monoMs(), count);
    }

    /** One attempt to mint, without waiting. */
    Mint mint(long wall, long mono, int count) {
        Minter current;
        lock.lock();
        try {
            Mint verdict = isClosing ? null : guard.judgeForMinting(wall, mono);
            if (verdict != null) {
                return verdict;
            }
            current = minter;
        } finally {
            lock.unlock();
        }
        if (current == null) {
            return isClosing ? Mint.refused("closed", "the generator is closed") : Mint.refused("no-lease", "no lease");
        }
        Mint mint = current.mint(wall, count);
        if (mint.isRefused("window-ended") && isFresh() && current == minter && wall >= current.endsMs()) {
            // A window that was just renewed has not ended by the cluster's clock.
            return Mint.refused("clock-ahead", "the wall clock is past the new window by "
                    + (wall - current.endsMs()) + " ms: it is ahead of the cluster's");
        }
        return mint;
    }

    private boolean isFresh() {
        return attempts > 0 && error == null && monoMs() - lastAttemptMs < FRESH_MS;
    }

    Minter minter() {
        return minter;
    }

    /** A regular reading of both clocks. Returns null if minting may use it. */
    Mint read(long wall, long mono) {
        lock.lock();
        try {
            return guard.judge(wall, mono);
        } finally {
            lock.unlock();
        }
    }

    boolean isEnded() {
        lock.lock();
        try {
            return isEnded;
        } finally {
            lock.unlock();
        }
    }

    boolean isUnused() {
        Minter current = minter;
        return current == null || current.lastTick() < 0;
    }

    long attempts() {
        return attempts;
    }

    IdGenerator.Status status() {
        Minter current = isClosing ? null : minter;
        return new IdGenerator.Status(current == null ? -1 : current.worker(), current == null ? 0 : current.endsMs(),
                taken, error);
    }

    /** Wakes the keeper and waits for its next attempt after {@code seen}, if that can help. */
    void await(Mint refusal, long seen, long deadline) {
        lock.lock();
        try {
            if (error != null && isForGood(error)) {
                throw error;
            }
            wake = true;
            changed.signalAll();
            while (attempts == seen && !isClosing) {
                long left = deadline - System.nanoTime();
                if (left <= 0) {
                    throw error != null && error.is("workers-exhausted") ? error
                            : new SeqdException(refusal.code(), refusal.detail()
                                    + (error == null ? "" : ": " + error.getMessage()), true, error);
                }
                changed.awaitNanos(left);
            }
        } catch (InterruptedException interrupted) {
            throw IdGenerator.interrupted();
        } finally {
            lock.unlock();
        }
    }

    private void keep() {
        while (!isClosing) {
            SeqdException failed = attempt();
            if (isClosing) {
                break;
            }
            long wait = failed == null ? pace.afterSuccess(renewAfterMs) : pace.after(isForGood(failed), asked(failed));
            report(failed);
            rest(wait, failed != null);
        }
        // Clears the interrupt of `close`.
        Thread.interrupted();
        SeqdException result = release();
        lock.lock();
        try {
            notReleased = result;
            isEnded = true;
            changed.signalAll();
        } finally {
            lock.unlock();
        }
    }

    private void report(SeqdException failed) {
        lock.lock();
        try {
            error = failed;
            lastAttemptMs = monoMs();
            attempts++;
            changed.signalAll();
        } finally {
            lock.unlock();
        }
    }

    /** Waits until the next attempt is due, and reads the clock meanwhile. After a failure, no call shortens it. */
    private void rest(long ms, boolean failed) {
        long began = monoMs();
        long until = began + ms;
        lock.lock();
        try {
            wake = false;
            while (!isClosing) {
                read(options.wallMs.getAsLong(), monoMs());
                if (wake && !failed) {
                    wake = false;
                    boolean isOver = minter == null || minter.endsMs() <= options.wallMs.getAsLong();
                    until = isOver ? Math.min(until, began + BETWEEN_WOKEN_MS) : until;
                }
                long left = until - monoMs();
                if (left <= 0) {
                    return;
                }
                changed.await(Math.min(left, LONGEST_READING_MS), TimeUnit.MILLISECONDS);
            }
        } catch (InterruptedException interrupted) {
            // Only `close` interrupts this thread, and the loop of the caller checks for that.
            Thread.currentThread().interrupt();
        } finally {
            lock.unlock();
        }
    }

    /** Takes or renews a lease. Returns the reason of a failure. Nothing that it throws may end the thread. */
    private SeqdException attempt() {
        try {
            Minter current = minter;
            if (current == null) {
                take();
            } else {
                renew(current);
            }
            return null;
        } catch (SeqdException failed) {
            return failed;
        } catch (RuntimeException failed) {
            return new SeqdException("bad-answer", "the response cannot be used: " + failed.getMessage(), false,
                    failed);
        }
    }

    private void take() {
        Answer lease = leases.lease(options);
        int worker = (int) lease.integer("id");
        long from = lease.integer("from_tick");
        Minter made;
        try {
            made = new Minter(Layout.of(lease.object("layout")), worker, lease.text("lease"), from,
                    lease.integer("fence_tick"), options.clock);
        } catch (RuntimeException unusable) {
            // Nothing was or will be minted: the next holder may use the whole window.
            leases.release(options, worker, lease.text("lease"), from - 1);
            throw unusable;
        }
        renewAfterMs = Math.max(lease.integer("renew_after_ms"), LEAST_RENEW_AFTER_MS);
        install(made);
    }

    void install(Minter made) {
        lock.lock();
        try {
            if (isClosing) {
                made.close();
            }
            taken++;
            minter = made;
        } finally {
            lock.unlock();
        }
    }

    private void renew(Minter current) {
        Answer lease;
        try {
            setRenewing(true);
            lease = leases.renew(options, current, Math.max(renewAfterMs, LEAST_LIMIT_MS));
        } catch (SeqdException failed) {
            if (!failed.is("lease-lost")) {
                throw failed;
            }
            drop(current);
            setRenewing(false);
            if (!isClosing) {
                take();
            }
            return;
        } finally {
            setRenewing(false);
        }
        if (!lease.text("lease").equals(current.lease()) || lease.integer("id") != current.worker()) {
            throw new SeqdException("bad-answer", "the renewal is for another lease", false);
        }
        current.extend(lease.integer("fence_tick"));
        renewAfterMs = Math.max(lease.integer("renew_after_ms"), LEAST_RENEW_AFTER_MS);
    }

    private void setRenewing(boolean is) {
        lock.lock();
        try {
            isRenewing = is;
        } finally {
            lock.unlock();
        }
    }

    /** Never mints with a lost lease again. */
    void drop(Minter lost) {
        lost.close();
        lock.lock();
        try {
            if (lost.lastTick() >= 0) {
                guard.used(lost.layout().wallAt(lost.lastTick()));
            }
            minter = null;
        } finally {
            lock.unlock();
        }
    }

    /** Ends the thread without a release: the worker is free after its window. */
    void abandon() {
        lock.lock();
        try {
            if (!isClosing) {
                closeBy = System.nanoTime();
                isClosing = true;
                changed.signalAll();
            }
        } finally {
            lock.unlock();
        }
    }

    /** Stops minting, lets the thread release the worker, and waits for that, also on an interrupted thread. */
    void close(long deadline) {
        boolean wasInterrupted = false;
        lock.lock();
        try {
            if (!isClosing) {
                closeBy = deadline;
                isClosing = true;
                if (minter != null) {
                    minter.close();
                }
                // The renewal has no more use. A request for a lease is completed, so that it is released.
                if (isRenewing) {
                    thread.interrupt();
                }
                changed.signalAll();
            }
            while (!isEnded) {
                long left = deadline - System.nanoTime();
                if (left <= 0) {
                    if (minter == null) {
                        return;
                    }
                    throw notReleased(minter, "no response within the time limit");
                }
                try {
                    changed.awaitNanos(left);
                } catch (InterruptedException interrupted) {
                    // A worker that is not released stays reserved for the whole window.
                    wasInterrupted = true;
                }
            }
            if (notReleased != null) {
                throw notReleased;
            }
        } finally {
            lock.unlock();
            if (wasInterrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /** Releases the worker. It is repeated until it is confirmed: a second release changes nothing. */
    private SeqdException release() {
        Minter held = minter;
        if (held == null) {
            return null;
        }
        held.close();
        String why = "no time was left";
        while (System.nanoTime() - closeBy < 0) {
            try {
                leases.release(options, held.worker(), held.lease(), held.releaseTick());
                return null;
            } catch (SeqdException failed) {
                // The lease has ended already: the response to an earlier release was lost.
                if (failed.is("lease-lost")) {
                    return null;
                }
                why = failed.getMessage();
                if (isForGood(failed)) {
                    break;
                }
            }
            try {
                Thread.sleep(AGAIN_MS);
            } catch (InterruptedException interrupted) {
                break;
            }
        }
        return notReleased(held, why);
    }

    private static SeqdException notReleased(Minter held, String why) {
        return new SeqdException("not-released", "worker " + held.worker() + " was not released and stays reserved "
                + "until " + Mint.time(held.endsMs()) + ": " + why, false);
    }

    /** Returns the wait that a response requests. A wrong clock of one node is no reason to wait for another. */
    private static long asked(SeqdException failed) {
        return failed.is("clock-behind") || failed.is("clock-skewed") ? 0 : failed.retryAfterMs();
    }

    /** Returns whether another attempt would most likely fail in the same way. */
    static boolean isForGood(SeqdException failed) {
        if (failed.is("layout-exhausted") || failed.is("unknown-layout") || failed.is("bad-lease")) {
            return true;
        }
        return failed.isRefusal();
    }
}
