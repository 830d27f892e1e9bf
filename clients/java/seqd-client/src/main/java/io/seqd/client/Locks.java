package io.seqd.client;

import java.util.List;
import java.util.Map;

/** The requests of a lock holder. Tests replace the cluster. */
interface Locks {
    Answer acquire(String name, Map<String, Object> request);

    /** Returns the hold of an earlier request with the same nonce, by one short attempt. */
    Answer find(String name, Map<String, Object> request);

    Answer renew(String name, Map<String, Object> request, long limitMs);

    void release(String name, String lease, long limitMs);

    /** The meaning of an error for a request about a lock. */
    enum Verdict {
        /** Another caller holds the lock. */
        HELD,
        /** The lease does not belong to a hold. */
        NOT_HELD,
        /** The same request may succeed later and is safe to repeat. */
        AGAIN,
        NEVER;

        static Verdict of(SeqdException error) {
            if (error.is("lock-held")) {
                return HELD;
            }
            if (error.is("lease-lost")) {
                return NOT_HELD;
            }
            return error.retryable() || error.isSilence() ? AGAIN : NEVER;
        }
    }

    /** The locks of a cluster. */
    record OfCluster(Client client) implements Locks {
        /** The most requests for one acquisition whose responses are lost: one per node of a cluster. */
        private static final int MOST_REQUESTS = 5;

        /** A lost request is repeated with the same nonce, so that it finds its place in the queue or its hold. */
        @Override
        public Answer acquire(String name, Map<String, Object> request) {
            long until = System.nanoTime() + ((Long) request.get("wait_ms")) * 1_000_000;
            for (int requests = 1;; requests++) {
                try {
                    return client.call(Operation.ACQUIRE_LOCK, List.of(name), request);
                } catch (SeqdException failed) {
                    boolean isLost = failed.is("outcome-unknown") && failed.status() == 0;
                    if (!isLost || requests == MOST_REQUESTS || Thread.currentThread().isInterrupted()) {
                        throw failed;
                    }
                }
                request.put("wait_ms", Math.max(0, (until - System.nanoTime()) / 1_000_000));
            }
        }

        @Override
        public Answer find(String name, Map<String, Object> request) {
            request.put("wait_ms", 0L);
            return client.callWithin(Hold.LEAST_LIMIT_MS, Operation.ACQUIRE_LOCK, List.of(name), request);
        }

        @Override
        public Answer renew(String name, Map<String, Object> request, long limitMs) {
            return client.callWithin(limitMs, Operation.RENEW_LOCK, List.of(name), request);
        }

        @Override
        public void release(String name, String lease, long limitMs) {
            client.callWithin(limitMs, Operation.RELEASE_LOCK, List.of(name), Map.of("lease", lease));
        }
    }
}
