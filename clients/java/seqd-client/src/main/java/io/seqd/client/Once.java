package io.seqd.client;

import java.time.Duration;
import java.util.List;

/** Work that is performed once per key, no matter how many callers request it and how often (docs/IDEMPOTENCY.md). */
public final class Once {
    private static final long AGAIN_MS = 300;

    private Once() {}

    /**
     * The options for beginning a key.
     *
     * @param fingerprint identifies the work, such as a hash of the request; another one for the key is refused
     * @param ttl the lifetime of the key and its result
     * @param claimTtl the longest duration of the work; after it another caller can receive a claim
     * @param patience the longest wait for another caller that performs the work
     */
    public record Options(String fingerprint, Duration ttl, Duration claimTtl, Duration patience) {
        /** Returns the defaults: a day, a minute for the work, and a minute of patience. */
        public static Options of(String fingerprint) {
            return new Options(fingerprint, Duration.ofDays(1), Duration.ofMinutes(1), Duration.ofMinutes(1));
        }
    }

    /**
     * The arguments of the work.
     *
     * @param token a fencing token for the changes of the work
     * @param attempt above 1 if an earlier claim ended without a result: check first whether the work was done
     */
    public record Turn(long token, long attempt) {}

    /**
     * A result: what JSON can express.
     *
     * @param replayed whether another call produced it
     */
    public record Result(Object value, boolean replayed) {}

    /** The work. Its result is null, a boolean, a number, a string, a list or a map of these. */
    @FunctionalInterface
    public interface Work<E extends Exception> {
        /** Performs it. */
        Object perform(Turn turn) throws E;
    }

    static <E extends Exception> Result perform(Client client, String key, Options options, Work<E> work) throws E {
        Answer begun = begin(client, key, options);
        if (begun.text("state").equals("done")) {
            return new Result(begun.fields().get("result"), true);
        }
        String claim = begun.text("claim");
        Object value;
        String json;
        try {
            value = work.perform(new Turn(begun.integer("token", 0), begun.integer("attempt", 1)));
            json = Json.write(value);
        } catch (Throwable failed) {
            // Otherwise the next caller would wait until the claim expires.
            try {
                client.call(Operation.ABANDON_KEY, List.of(key), Client.fields("claim", claim));
            } catch (SeqdException unconfirmed) {
                failed.addSuppressed(unconfirmed);
            }
            throw failed;
        }
        keep(client, key, claim, json);
        return new Result(value, false);
    }

    private static Answer begin(Client client, String key, Options options) {
        long until = System.nanoTime() + options.patience().toNanos();
        var request = Client.fields("ttl_ms", options.ttl().toMillis(), "claim_ttl_ms", options.claimTtl().toMillis(),
                "fingerprint", options.fingerprint(), "nonce", Client.nonce());
        while (true) {
            try {
                return client.call(Operation.BEGIN_KEY, List.of(key), request);
            } catch (SeqdException failed) {
                long left = (until - System.nanoTime()) / 1_000_000;
                boolean mayPass = failed.retryable() || failed.isSilence() && !failed.is("bad-answer");
                if (!mayPass || left <= 0) {
                    throw failed;
                }
                sleep(Math.min(failed.retryAfterMs() < 0 ? AGAIN_MS : failed.retryAfterMs(), left));
            }
        }
    }

    /** Completes the key. The request is safe to repeat. */
    private static void keep(Client client, String key, String claim, String json) {
        for (int attempts = 1;; attempts++) {
            try {
                client.call(Operation.COMPLETE_KEY, List.of(key),
                        Client.fields("claim", claim, "result", new Json.Raw(json)));
                return;
            } catch (SeqdException failed) {
                if (failed.is("lease-lost")) {
                    throw new SeqdException("took-too-long",
                            "the work was done, but its claim had expired: " + failed.getMessage(), false, failed);
                }
                if (attempts == 5) {
                    throw new SeqdException("not-kept", "the work was done, but it is unknown whether its result was "
                            + "stored: " + failed.getMessage(), false, failed);
                }
            }
            sleep(AGAIN_MS);
        }
    }

    private static void sleep(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException interrupted) {
            throw IdGenerator.interrupted();
        }
    }
}
