package io.seqd.client;

/** A lock is no longer held. Its code is {@code lock-lost}. */
public final class LockLostException extends SeqdException {
    private static final long serialVersionUID = 1;

    private final String reason;

    LockLostException(String reason, String message, Throwable cause) {
        super("lock-lost", message, false, cause);
        this.reason = reason;
    }

    /**
     * Returns {@code taken-away} if the cluster reported the loss, {@code ran-out} if the hold was not renewed in time,
     * and {@code released}.
     */
    public String reason() {
        return reason;
    }
}
