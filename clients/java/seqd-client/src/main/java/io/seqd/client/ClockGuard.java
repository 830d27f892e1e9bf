package io.seqd.client;

/**
 * Compares the wall clock with the monotonic clock, and decides whether a reading may be used for minting.
 *
 * <p>The difference of both clocks, the line, is constant while nobody sets the wall clock. A reading near the trusted
 * line moves it, so that slow drift does not add up. A reading further ahead is a jump, which is trusted once the clock
 * has kept to its new line for {@link #CONFIRM_MS}. Uniqueness does not depend on any of this.
 */
final class ClockGuard {
    static final long CONFIRM_MS = 5_000;

    private final ClockPolicy policy;
    private Long line;
    private long candidate;
    private Long candidateSince;
    /** The start of the last tick that a closed minter used. */
    private long lastUsed;

    ClockGuard(ClockPolicy policy) {
        this.policy = policy;
    }

    void used(long wallMs) {
        lastUsed = Math.max(lastUsed, wallMs);
    }

    /** Returns null if the reading may be used. */
    Mint judgeForMinting(long wall, long mono) {
        boolean isNear = line != null && wall - mono <= line + policy.maxForwardJumpMs();
        return isNear && wall >= lastUsed ? null : judge(wall, mono);
    }

    /** Judges a reading and records it. */
    Mint judge(long wall, long mono) {
        if (lastUsed > 0 && wall < lastUsed) {
            candidateSince = null;
            long by = lastUsed - wall;
            if (policy.continueOnRollback()) {
                return null;
            }
            return by > policy.maxBackwardWaitMs() ? Mint.behind(by, lastUsed) : Mint.await(by);
        }
        long here = wall - mono;
        long ahead = here - (line == null ? here : line);
        if (isNear(ahead) || isConfirmed(here, mono)) {
            line = here;
            candidateSince = null;
            return null;
        }
        return ahead > 0 ? Mint.refused("clock-jumped", "the wall clock jumped " + ahead
                + " ms ahead; it is trusted again after it has been steady for 5 s") : null;
    }

    private boolean isConfirmed(long here, long mono) {
        if (candidateSince == null || !isNear(here - candidate)) {
            candidateSince = mono;
        }
        candidate = here;
        return mono - candidateSince >= CONFIRM_MS;
    }

    private boolean isNear(long difference) {
        return Math.abs(difference) <= policy.maxForwardJumpMs();
    }
}
