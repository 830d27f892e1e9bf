package io.seqd.client;

/**
 * The reason why a call has no result.
 *
 * <p>{@link #code()} is the code of a node's response (docs/PROBLEMS.md), or one of the client:
 * <ul>
 * <li>{@code unreachable} (the request was not sent), {@code no-answer} (it was sent, and is safe to repeat),
 * {@code outcome-unknown} (it may have taken effect), {@code bad-answer}, {@code interrupted},
 * {@code invalid-argument};
 * <li>of an {@link IdGenerator}: {@code no-lease}, {@code window-ended}, {@code clock-behind}, {@code clock-jumped},
 * {@code clock-ahead}, {@code busy}, {@code closed}, {@code not-released}, {@code unknown-layout}, {@code bad-lease};
 * <li>of {@link Ranges}: {@code sequence-cycled}, {@code closed};
 * <li>of {@link LockGuard}: {@code lock-lost};
 * <li>of {@link Once}: {@code took-too-long}, {@code not-kept}.
 * </ul>
 */
public class SeqdException extends RuntimeException {
    private static final long serialVersionUID = 1;

    private final String code;
    private final String hint;
    private final boolean retryable;
    private final int status;
    private final long retryAfterMs;
    private final transient Answer problem;

    SeqdException(String code, String message, boolean retryable) {
        this(code, message, retryable, null);
    }

    SeqdException(String code, String message, boolean retryable, Throwable cause) {
        this(code, message, retryable, 0, cause);
    }

    /** An error of a response that is not from seqd. */
    SeqdException(String code, String message, int status, Throwable cause) {
        this(code, message, false, status, cause);
    }

    private SeqdException(String code, String message, boolean retryable, int status, Throwable cause) {
        super(message + " (" + code + ")", cause);
        this.code = code;
        this.hint = null;
        this.retryable = retryable;
        this.status = status;
        this.retryAfterMs = -1;
        this.problem = null;
    }

    SeqdException(int status, Answer problem) {
        super(message(problem));
        this.code = problem.text("code");
        this.hint = problem.textOrNull("hint");
        this.retryable = problem.flag("retryable");
        this.status = status;
        this.retryAfterMs = problem.integer("retry_after_ms", -1);
        this.problem = problem;
    }

    private static String message(Answer problem) {
        String hint = problem.has("hint") ? "; hint: " + problem.text("hint") : "";
        String detail = problem.has("detail") ? problem.text("detail") : "refused";
        return detail + " (" + problem.text("code") + ")" + hint;
    }

    static SeqdException invalid(String message) {
        return new SeqdException("invalid-argument", message, false);
    }

    /** Returns the stable code. */
    public String code() {
        return code;
    }

    /** Returns the remedy, or null. */
    public String hint() {
        return hint;
    }

    /** Returns whether the request certainly had no effect and may be repeated. */
    public boolean retryable() {
        return retryable;
    }

    /** Returns the HTTP status of the response, or 0 without one. */
    public int status() {
        return status;
    }

    /** Returns the time after which a repetition can succeed in milliseconds, or -1 if it is not known. */
    public long retryAfterMs() {
        return retryAfterMs;
    }

    /** Returns the whole problem of the response, such as the holder of a lock, or null without a response. */
    public Answer problem() {
        return problem;
    }

    boolean is(String other) {
        return code.equals(other);
    }

    /**
     * Returns whether no node gave an answer of its own, so that the next attempt may succeed. A proxy that cannot
     * reach a node responds with a status of 500 or above.
     */
    boolean isSilence() {
        return is("unreachable") || isUnanswered() || is("bad-answer") && status >= 500;
    }

    /** Returns whether the request was sent and may have taken effect. */
    boolean isUnanswered() {
        return is("no-answer") || is("outcome-unknown");
    }

    /** Returns whether a node refused the request for a permanent reason. */
    boolean isRefusal() {
        return !is("bad-answer") && status >= 400 && status < 500 && !retryable;
    }
}
