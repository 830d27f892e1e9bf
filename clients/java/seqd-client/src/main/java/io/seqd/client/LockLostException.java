package io.seqd.client;

/**
 * The reason why a lock is no longer held. Its code is {@code taken-away} if the cluster reported it, {@code ran-out}
 * if the hold was not renewed in time, and {@code released}.
 */
public final class LockLostException extends SeqdException {
    private static final long serialVersionUID = 1;

    LockLostException(String code, String message, Throwable cause) {
        super(code, message, false, cause);
    }
}
