package io.seqd.client;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/**
 * The thread of ranges, and what it shares with them. It does not refer to {@link Ranges}, so that ranges without an
 * owner are collected.
 */
final class RangesKeeper {
    private static final long AGAIN_MS = 300;

    private final Client client;
    private final String name;
    private final int size;
    private final Duration patience;
    private final Thread keeper;
    private final Pace pace = new Pace();

    /** Guards the fields below. It is never held during a request. */
    private final ReentrantLock lock = new ReentrantLock();
    private final Condition changed = lock.newCondition();
    private Segment current = Segment.NONE;
    private long drawn;
    private Segment next;
    /** The grant that the next one extends, or null. */
    private String latest;
    private Long before;
    private long abandoned;
    private SeqdException error;
    private boolean isPermanent;
    private boolean isClosing;
    private long closeBy;
    private Ranges.Closed closed;

    private record Segment(String grant, long first, long increment, long count) {
        static final Segment NONE = new Segment(null, 0, 1, 0);

        long at(long offset) {
            return first + increment * offset;
        }
    }

    RangesKeeper(Client client, String name, int size, Duration patience) {
        if (size < 1 || size > Ranges.MAX_SIZE) {
            throw SeqdException.invalid("the size of a segment is 1 to " + Ranges.MAX_SIZE + ", not " + size);
        }
        this.client = client;
        this.name = name;
        this.size = size;
        this.patience = patience;
        this.keeper = new Thread(this::keep, "seqd-ranges");
        keeper.setDaemon(true);
        keeper.start();
    }

    long next() {
        lock.lock();
        try {
            if (drawn == current.count()) {
                open();
            }
            long value = current.at(drawn++);
            if (drawn * 10 >= current.count() && next == null) {
                changed.signalAll();
            }
            return value;
        } finally {
            lock.unlock();
        }
    }

    /** Makes the next segment the current one, and waits for it. */
    private void open() {
        long deadline = System.nanoTime() + patience.toNanos();
        try {
            // Another thread that waits may open the segment first.
            while (drawn == current.count()) {
                if (isClosing) {
                    throw new SeqdException("closed", "the ranges are closed", false);
                }
                if (next != null) {
                    current = next;
                    next = null;
                    drawn = 0;
                    return;
                }
                long left = deadline - System.nanoTime();
                if (isPermanent) {
                    throw error;
                }
                if (left <= 0) {
                    throw error != null ? error
                            : new SeqdException("no-answer", "no segment was granted in time", true);
                }
                changed.signalAll();
                changed.awaitNanos(left);
            }
        } catch (InterruptedException interrupted) {
            throw IdGenerator.interrupted();
        }
    }

    Ranges.Status status() {
        lock.lock();
        try {
            long available = current.count() - drawn + (next == null ? 0 : next.count());
            return new Ranges.Status(available, abandoned, error);
        } finally {
            lock.unlock();
        }
    }

    private boolean isDue() {
        return next == null && drawn * 10 >= current.count();
    }

    private void keep() {
        while (true) {
            String after;
            lock.lock();
            try {
                while (!isClosing && !isDue()) {
                    changed.awaitUninterruptibly();
                }
                if (isClosing) {
                    break;
                }
                after = latest;
            } finally {
                lock.unlock();
            }
            long wait = fetch(after);
            rest(wait);
        }
        Ranges.Closed result = giveBack();
        lock.lock();
        try {
            closed = result;
            changed.signalAll();
        } finally {
            lock.unlock();
        }
    }

    private void rest(long ms) {
        long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(ms);
        lock.lock();
        try {
            for (long left = until - System.nanoTime(); left > 0 && !isClosing; left = until - System.nanoTime()) {
                changed.awaitNanos(left);
            }
        } catch (InterruptedException ignored) {
            // Nobody interrupts this thread. A shorter pause does no harm.
        } finally {
            lock.unlock();
        }
    }

    /** Requests one segment. Returns the pause before the next request. */
    private long fetch(String after) {
        try {
            Answer answer = client.call(Operation.GRANT_SEGMENT, List.of(name),
                    Client.fields("size", size, "after", after));
            Segment granted = Client.read(() -> new Segment(answer.text("grant"), answer.integer("first"),
                    answer.integer("increment"), answer.integer("count")));
            install(granted);
            pace.afterSuccess(0);
            return 0;
        } catch (RuntimeException thrown) {
            return failed(thrown instanceof SeqdException seqd ? seqd
                    : new SeqdException("bad-answer", String.valueOf(thrown.getMessage()), false, thrown), after);
        }
    }

    private void install(Segment granted) {
        lock.lock();
        try {
            if (granted.count() < 1 || granted.count() > Ranges.MAX_SIZE || granted.increment() == 0) {
                throw new SeqdException("bad-answer", "the granted segment is invalid", false);
            }
            if (before != null && (granted.first() > before) != (granted.increment() > 0)) {
                abandoned += granted.count();
                throw new SeqdException("sequence-cycled", "the granted values from " + granted.first()
                        + " do not follow " + before + ": ranges do not cross the end of a cycle", false);
            }
            next = granted;
            latest = granted.grant();
            before = granted.at(granted.count() - 1);
            error = null;
            isPermanent = false;
            changed.signalAll();
        } finally {
            lock.unlock();
        }
    }

    private long failed(SeqdException failed, String after) {
        boolean isUnknown = failed.is("outcome-unknown") || failed.is("bad-answer") || failed.is("internal");
        boolean isTransient = isUnknown || failed.retryable();
        lock.lock();
        try {
            if (isUnknown) {
                abandoned += size;
            }
            if (!isTransient && after != null && latest != null && !failed.is("sequence-cycled")) {
                // A restored cluster does not accept the grants of its predecessor: once more without it.
                latest = null;
                return 0;
            }
            error = failed;
            isPermanent = !isTransient;
            changed.signalAll();
            return pace.after(isPermanent, failed.retryAfterMs());
        } finally {
            lock.unlock();
        }
    }

    /** Lets the thread return unused values and end, without waiting for it. Returns when it ends at the latest. */
    long abandon() {
        long deadline = System.nanoTime() + patience.toNanos();
        lock.lock();
        try {
            if (!isClosing) {
                isClosing = true;
                closeBy = deadline;
                changed.signalAll();
            }
            return deadline;
        } finally {
            lock.unlock();
        }
    }

    Ranges.Closed end() {
        boolean wasInterrupted = false;
        long deadline = abandon();
        lock.lock();
        try {
            while (closed == null) {
                long left = deadline - System.nanoTime();
                if (left <= 0) {
                    drawn = current.count();
                    return new Ranges.Closed(0, 0, "no response within the patience: unused values may be lost");
                }
                try {
                    changed.awaitNanos(left);
                } catch (InterruptedException interrupted) {
                    // Unused values would become a gap.
                    wasInterrupted = true;
                }
            }
            return closed;
        } finally {
            lock.unlock();
            if (wasInterrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private Ranges.Closed giveBack() {
        long unused;
        long ofGrant;
        long lost = 0;
        String grant;
        lock.lock();
        try {
            long ofCurrent = current.count() - drawn;
            boolean hasNext = next != null;
            Segment last = hasNext ? next : current;
            grant = last.grant();
            ofGrant = hasNext ? next.count() : ofCurrent;
            boolean isAdjacent = hasNext && current.at(current.count()) == next.first();
            unused = hasNext && isAdjacent ? ofCurrent + ofGrant : ofGrant;
            lost = hasNext && !isAdjacent ? ofCurrent : 0;
            // Nothing is drawn before the values are returned.
            drawn = current.count();
            next = null;
        } finally {
            lock.unlock();
        }
        if (unused == 0) {
            return new Ranges.Closed(0, lost, null);
        }
        long all = unused + lost;
        String why = "no time was left";
        String unanswered = null;
        while (System.nanoTime() - closeBy < 0) {
            try {
                long returned = client.call(Operation.RETURN_SEGMENT, List.of(name, grant),
                        Client.fields("unused", unused)).integer("returned");
                return new Ranges.Closed(returned, all - Math.min(returned, all), null);
            } catch (SeqdException failed) {
                why = failed.getMessage();
                if (failed.is("grant-superseded") && unanswered != null) {
                    // The return itself ends the grant, so the two cases cannot be distinguished.
                    return new Ranges.Closed(0, lost, "it is unknown whether " + (all - lost)
                            + " values were returned: " + unanswered + "; then: " + why);
                }
                if (failed.isUnanswered() || failed.is("bad-answer")) {
                    unanswered = why;
                }
                if (!failed.retryable() && !failed.isSilence()) {
                    // The segment before may belong to another run, which only the cluster can decide.
                    if (unused == ofGrant) {
                        break;
                    }
                    unused = ofGrant;
                    continue;
                }
            } catch (IllegalArgumentException unreadable) {
                why = unreadable.getMessage();
                unanswered = why;
            }
            try {
                Thread.sleep(AGAIN_MS);
            } catch (InterruptedException interrupted) {
                break;
            }
        }
        return new Ranges.Closed(0, all, why);
    }
}
