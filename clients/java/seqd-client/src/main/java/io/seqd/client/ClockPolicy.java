package io.seqd.client;

/**
 * The tolerances for the wall clock of a generator. The defaults are those of the server. Uniqueness does not depend
 * on them.
 *
 * @param maxBackwardWaitMs the largest rollback that is waited out
 * @param continueOnRollback after a larger one: continues in logical time inside the window, or (false) refuses
 * @param maxForwardJumpMs how far the wall clock may run ahead of the monotonic clock between two readings
 */
public record ClockPolicy(long maxBackwardWaitMs, boolean continueOnRollback, long maxForwardJumpMs) {
    /** Returns the defaults: 50 ms, refuse, 1 s. */
    public static ClockPolicy defaults() {
        return new ClockPolicy(50, false, 1000);
    }
}
