package io.seqd.client;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/** Decides after each endpoint whether the next one is tried, and which error a request without an answer has. */
final class Round {
    private final List<String> attempts = new ArrayList<>();
    private boolean wasSent;
    private SeqdException problem;
    /** The problem of a port that requires TLS, and the number of such ports. */
    private SeqdException withoutTls;
    private int countWithoutTls;

    /** Records an endpoint that did not respond. Throws if the request may have taken effect. */
    void silent(Endpoint endpoint, String reason, boolean notSent, boolean changes) {
        if (!notSent && changes) {
            throw unknown(endpoint, reason);
        }
        wasSent |= !notSent;
        attempts.add(endpoint + " (" + reason + ")");
    }

    /** Returns whether the port requires TLS and the endpoint has none: nothing of the request was processed. */
    boolean lacksTls(Endpoint endpoint, int status, byte[] body) {
        if (endpoint.isHttps() || status != 400) {
            return false;
        }
        try {
            Answer answer = Answer.of(Json.read(new String(body, StandardCharsets.UTF_8)));
            if (!answer.flag("tls_required")) {
                return false;
            }
            withoutTls = new SeqdException(status, answer);
        } catch (IllegalArgumentException notOfSeqd) {
            return false;
        }
        countWithoutTls++;
        attempts.add(endpoint + " (" + withoutTls.getMessage() + ")");
        return true;
    }

    /** Judges a response. Returns null if the next endpoint should be tried. */
    Answer answered(Endpoint endpoint, int status, byte[] body, boolean changes) {
        String text = new String(body, StandardCharsets.UTF_8);
        try {
            Answer answer = Answer.of(Json.read(text));
            if (status >= 200 && status < 300) {
                return answer;
            }
            SeqdException refused = new SeqdException(status, answer);
            // The holder of a lock is the same on all nodes.
            if (!refused.retryable() || refused.is("lock-held")) {
                throw refused;
            }
            problem = refused;
            return null;
        } catch (IllegalArgumentException notOfSeqd) {
            // An intermediary may have forwarded the request before it failed.
            if (changes && status >= 500) {
                throw unknown(endpoint, "status " + status);
            }
            String start = text.substring(0, Math.min(text.length(), 120));
            throw new SeqdException("bad-answer", endpoint + " returned status " + status
                    + ", and the response is not from seqd: " + notOfSeqd.getMessage() + "; it begins with \"" + start
                    + "\"", status, notOfSeqd);
        }
    }

    private static SeqdException unknown(Endpoint endpoint, String reason) {
        return new SeqdException("outcome-unknown", "the request was sent to " + endpoint + " and got no response ("
                + reason + "); it may have taken effect", false);
    }

    SeqdException interrupted(Endpoint endpoint, boolean changes) {
        return changes ? unknown(endpoint, "interrupted")
                : new SeqdException("interrupted", "the thread was interrupted", false);
    }

    /**
     * Returns the error of a round without an answer. A node's problem explains more than another's silence. A missing
     * TLS is the error only if no endpoint failed otherwise: a retry may reach the others.
     */
    SeqdException error() {
        if (problem != null) {
            return problem;
        }
        if (withoutTls != null && countWithoutTls == attempts.size()) {
            return withoutTls;
        }
        String list = String.join(", ", attempts);
        return wasSent ? new SeqdException("no-answer", "no response: " + list, true)
                : new SeqdException("unreachable", "no node could be reached: " + list, true);
    }
}
