package io.seqd.client;

import java.time.Instant;

/**
 * The result of a request to mint: IDs of one tick, a wait, or a refusal.
 *
 * @param ids the number of IDs; 0 for none
 * @param first the first ID; the next ones follow at the distance {@code step}
 * @param waitMs above 0 if the clock should be read again after this time
 * @param code the reason of a refusal, or null
 */
record Mint(int ids, long first, long step, int worker, long waitMs, String code, String detail, long byMs) {
    static Mint ready(int ids, long first, long step, int worker) {
        return new Mint(ids, first, step, worker, 0, null, null, 0);
    }

    static Mint await(long ms) {
        return new Mint(0, 0, 0, 0, ms, null, null, 0);
    }

    static Mint refused(String code, String detail) {
        return new Mint(0, 0, 0, 0, 0, code, detail, 0);
    }

    static Mint behind(long byMs, long until) {
        String detail = "the wall clock is " + byMs + " ms behind; the generator serves again at " + time(until);
        return new Mint(0, 0, 0, 0, 0, "clock-behind", detail, byMs);
    }

    static String time(long unixMs) {
        return Instant.ofEpochMilli(unixMs).toString();
    }

    boolean isRefused(String reason) {
        return reason.equals(code);
    }
}
