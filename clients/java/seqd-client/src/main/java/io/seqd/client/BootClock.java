package io.seqd.client;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.function.LongSupplier;

/**
 * A clock that no step of the wall clock changes, and that on Linux includes the time in which the machine was
 * suspended. Elsewhere a hold may appear valid for longer after a suspension.
 *
 * <p>The time is that of the monotonic clock, plus the suspended time by {@code /proc/uptime}. A reading never fails,
 * because holds must be renewed and must end also while the file cannot be read, for example for lack of a file
 * descriptor. Only a suspension is then counted later.
 */
final class BootClock implements LongSupplier {
    /** The clock of all locks, so that the file is opened once. */
    static final BootClock SYSTEM = new BootClock(Path.of("/proc/uptime"));
    /** The resolution of the file. */
    static final long RESOLUTION_MS = 10;

    private final Path uptime;
    private final boolean hasUptime;
    private final byte[] bytes = new byte[64];
    private RandomAccessFile file;
    /** The time by which the file is ahead of the monotonic clock. It only grows, so that the clock never goes back. */
    private Long aheadNanos;

    BootClock(Path uptime) {
        this.uptime = uptime;
        this.hasUptime = Files.isReadable(uptime);
    }

    /** Returns milliseconds, at most {@link #RESOLUTION_MS} later than the time itself and never earlier. */
    @Override
    public synchronized long getAsLong() {
        Long uptimeNanos = hasUptime ? read() : null;
        // Read after the file: the difference must not include the time between the readings.
        long now = System.nanoTime();
        if (aheadNanos == null) {
            aheadNanos = uptimeNanos == null ? 0 : uptimeNanos - now;
        } else if (uptimeNanos != null) {
            aheadNanos = Math.max(aheadNanos, uptimeNanos - now);
        }
        return Math.floorDiv(now + aheadNanos, 1_000_000L) + RESOLUTION_MS;
    }

    /** Returns the time in the file in nanoseconds, or null if it cannot be read. */
    private Long read() {
        try {
            if (file == null) {
                // A channel would be closed by an interrupt of the thread that reads it.
                file = new RandomAccessFile(uptime.toFile(), "r");
            }
            file.seek(0);
            String text = new String(bytes, 0, file.read(bytes), StandardCharsets.US_ASCII);
            return Math.round(Double.parseDouble(text.substring(0, text.indexOf(' '))) * 1000) * 1_000_000;
        } catch (IOException | RuntimeException unreadable) {
            return null;
        }
    }
}
