package io.seqd.client;

/** What is known of a hold: until when it lasts at least, and the first reason of its loss, which stays. */
final class HoldState {
    private final long ttlMs;
    private long untilMs;
    private LockLostException lost;
    private SeqdException why;

    HoldState(long ttlMs, long untilMs) {
        this.ttlMs = ttlMs;
        this.untilMs = untilMs;
    }

    /** Records a renewal. A hold that has run out by this clock stays lost, whatever arrives later. */
    synchronized void renewed(long expiresInMs, long sentMs, long nowMs) {
        if (lost(nowMs) == null) {
            untilMs = Math.max(untilMs, Hold.lasts(expiresInMs, sentMs, ttlMs));
        }
    }

    /** Records a failed renewal, and returns whether the cluster has ended the hold. */
    synchronized boolean refused(SeqdException failed) {
        Locks.Verdict verdict = Locks.Verdict.of(failed);
        if (verdict != Locks.Verdict.HELD && verdict != Locks.Verdict.NOT_HELD) {
            why = failed;
            return false;
        }
        lose(new LockLostException("taken-away", "the cluster reports that the lock is no longer held: "
                + failed.getMessage(), failed));
        return true;
    }

    synchronized void lose(LockLostException reason) {
        if (lost == null) {
            lost = reason;
        }
    }

    /** Returns the reason of the loss, or null while it is held. */
    synchronized LockLostException lost(long nowMs) {
        if (lost == null && nowMs >= untilMs) {
            lost = new LockLostException("ran-out", "the lock expired because it was not renewed in time"
                    + (why == null ? "" : ": " + why.getMessage()), why);
        }
        return lost;
    }

    synchronized long untilMs() {
        return untilMs;
    }
}
