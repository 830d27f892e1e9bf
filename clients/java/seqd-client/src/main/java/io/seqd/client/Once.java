package io.seqd.client;

import java.time.Duration;
import java.util.List;
import java.util.Map;

/** Work that is performed once per key, no matter how many callers request it and how often (docs/IDEMPOTENCY.md). */
public final class Once {
    private static final long AGAIN_MS = 300;
    /** The shortest pause, as a response may request one of 0 ms. */
    private static final long LEAST_AGAIN_MS = 20;
    /** The only field of the result of a key whose work was done, but whose result cannot be stored. */
    private static final String NOT_KEPT = "seqd_result_not_kept";
    private static final int LONGEST_REASON = 100;

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

        /** Returns the same with another lifetime of the key and its result. */
        public Options withTtl(Duration ttl) {
            return new Options(fingerprint, ttl, claimTtl, patience);
        }

        /** Returns the same with another longest duration of the work. */
        public Options withClaimTtl(Duration claimTtl) {
            return new Options(fingerprint, ttl, claimTtl, patience);
        }

        /** Returns the same with another longest wait for another caller. */
        public Options withPatience(Duration patience) {
            return new Options(fingerprint, ttl, claimTtl, patience);
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
     * A result, as it was written and read as JSON: null, a boolean, a {@code Long}, a {@code BigDecimal}, a string, a
     * list or a map.
     *
     * @param replayed whether another call produced it
     */
    public record Result(Object value, boolean replayed) {}

    /** The work. Its result is null, a boolean, a number, a string, a list or a map of these, at most 16 KiB. */
    @FunctionalInterface
    public interface Work<E extends Exception> {
        /** Performs it. */
        Object perform(Turn turn) throws E;
    }

    static <E extends Exception> Result perform(Client client, String key, Options options, Work<E> work) throws E {
        Answer begun = begin(client, key, options);
        if (begun.text("state").equals("done")) {
            Object result = begun.fields().get("result");
            if (result instanceof Map<?, ?> map && map.get(NOT_KEPT) != null) {
                throw notKept(String.valueOf(map.get(NOT_KEPT)), false, null);
            }
            return new Result(result, true);
        }
        String claim = begun.text("claim");
        Object value;
        try {
            value = work.perform(new Turn(begun.integer("token", 0), begun.integer("attempt", 1)));
        } catch (Throwable failed) {
            // Otherwise the next caller would wait until the claim expires.
            try {
                abandon(client, key, claim);
            } catch (SeqdException unconfirmed) {
                failed.addSuppressed(unconfirmed);
            }
            throw failed;
        }
        return new Result(Client.uninterrupted(() -> complete(client, key, claim, value)), false);
    }

    private static void abandon(Client client, String key, String claim) {
        Client.uninterrupted(() -> client.call(Operation.ABANDON_KEY, List.of(key), Client.fields("claim", claim)));
    }

    /** Ends the claim of a request whose response was cut off by an interrupt. */
    private static void withdraw(Client client, String key, Map<String, Object> request) {
        try {
            Answer begun = Client.uninterrupted(
                    () -> client.callWithin(Hold.LEAST_LIMIT_MS, Operation.BEGIN_KEY, List.of(key), request));
            if (begun.text("state").equals("first")) {
                abandon(client, key, begun.text("claim"));
            }
        } catch (SeqdException | IllegalArgumentException ignored) {
            // There is no claim, or it expires.
        }
    }

    private static Answer begin(Client client, String key, Options options) {
        long until = System.nanoTime() + options.patience().toNanos();
        var request = Client.fields("ttl_ms", options.ttl().toMillis(), "claim_ttl_ms", options.claimTtl().toMillis(),
                "fingerprint", options.fingerprint(), "nonce", Client.nonce());
        // Whether the cluster may have granted a claim to this nonce.
        boolean wasSent = false;
        while (true) {
            try {
                return client.call(Operation.BEGIN_KEY, List.of(key), request);
            } catch (SeqdException failed) {
                wasSent |= failed.isUnanswered() || failed.is("interrupted");
                long left = (until - System.nanoTime()) / 1_000_000;
                boolean mayPass = failed.retryable() || failed.isUnanswered();
                if (mayPass && left > 0) {
                    long asked = failed.retryAfterMs() < 0 ? AGAIN_MS : failed.retryAfterMs();
                    if (Hold.hasSlept(Math.min(Math.max(asked, LEAST_AGAIN_MS), left))) {
                        continue;
                    }
                    failed = IdGenerator.interrupted();
                }
                if (wasSent && Thread.currentThread().isInterrupted()) {
                    withdraw(client, key, request);
                }
                throw failed;
            }
        }
    }

    /**
     * Stores the result, and returns it as every later caller gets it. A key whose result cannot be stored is completed
     * nevertheless, because its work must not be done again.
     */
    private static Object complete(Client client, String key, String claim, Object value) {
        String reason;
        Throwable cause;
        try {
            String json = Json.write(value);
            SeqdException refusal = store(client, key, claim, json);
            if (refusal == null) {
                return Json.read(json);
            }
            reason = "was refused: " + refusal.getMessage();
            cause = refusal;
        } catch (IllegalArgumentException notJson) {
            reason = "is not JSON: " + notJson.getMessage();
            cause = notJson;
        }
        String start = reason.substring(0, Math.min(reason.length(), LONGEST_REASON));
        // The cluster always has room for a short result, but the token may have been revoked.
        boolean isOpen = store(client, key, claim, Json.write(Map.of(NOT_KEPT, start))) != null;
        throw notKept(reason, isOpen, cause);
    }

    private static SeqdException notKept(String reason, boolean isOpen, Throwable cause) {
        String next = isOpen ? "; its key is still open: another caller begins when the claim expires"
                : "; later callers get this error too: return JSON of at most 16 KiB";
        return new SeqdException("not-kept", "the work was done, but its result " + reason + next, false, cause);
    }

    /** Completes the key, which is safe to repeat, or returns why the cluster refuses the result. */
    private static SeqdException store(Client client, String key, String claim, String json) {
        for (int attempts = 1;; attempts++) {
            try {
                client.call(Operation.COMPLETE_KEY, List.of(key),
                        Client.fields("claim", claim, "result", new Json.Raw(json)));
                return null;
            } catch (SeqdException failed) {
                if (failed.is("lease-lost")) {
                    throw new SeqdException("took-too-long",
                            "the work was done, but its claim had expired: " + failed.getMessage(), false, failed);
                }
                if (failed.isRefusal()) {
                    return failed;
                }
                if (attempts == 5) {
                    throw new SeqdException("outcome-unknown", "the work was done, but it is unknown whether its "
                            + "result was stored: " + failed.getMessage(), false, failed);
                }
            }
            if (!Hold.hasSlept(AGAIN_MS)) {
                throw IdGenerator.interrupted();
            }
        }
    }
}
