package io.seqd.client;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.function.LongSupplier;

/**
 * A clock that no step of the wall clock changes, and that on Linux includes the time in which the machine was
 * suspended. Elsewhere a hold may appear valid for longer after a suspension.
 */
final class BootClock implements LongSupplier {
    private static final Path UPTIME = Path.of("/proc/uptime");
    /** The resolution of the file. */
    static final long RESOLUTION_MS = 10;

    private final boolean hasUptime = Files.isReadable(UPTIME);

    /** Returns milliseconds, at most {@link #RESOLUTION_MS} later than the time itself and never earlier. */
    @Override
    public long getAsLong() {
        if (!hasUptime) {
            return System.nanoTime() / 1_000_000 + 1;
        }
        try {
            String text = Files.readString(UPTIME, StandardCharsets.US_ASCII);
            return (long) (Double.parseDouble(text.substring(0, text.indexOf(' '))) * 1000) + RESOLUTION_MS;
        } catch (IOException | RuntimeException unreadable) {
            throw new IllegalStateException("cannot read " + UPTIME + ": no hold can be judged", unreadable);
        }
    }
}
