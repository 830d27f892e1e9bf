package io.seqd.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The clock of holds, with a file that a test writes. */
class BootClockTest {
    @Test
    void theFileIsOpenedOnceAndSuspendedTimeCounts(@TempDir Path folder) throws IOException {
        Path file = Files.writeString(folder.resolve("uptime"), "100.29 1.00\n");
        BootClock clock = new BootClock(file);
        assertEquals(100_290 + BootClock.RESOLUTION_MS, clock.getAsLong());
        Files.writeString(file, "160.50 1.00\n");
        Files.delete(file);
        long resumed = clock.getAsLong();
        assertTrue(resumed >= 160_500 + BootClock.RESOLUTION_MS, "the clock shows " + resumed);
    }

    @Test
    void aFailedReadingIsReplacedByTheMonotonicClockAndRepeated(@TempDir Path folder) throws Exception {
        Path file = Files.writeString(folder.resolve("uptime"), "100.00 1.00\n");
        BootClock clock = new BootClock(file);
        long began = System.nanoTime();
        long first = clock.getAsLong();
        Files.writeString(file, "");
        Thread.sleep(50);
        long passed = clock.getAsLong() - first;
        long most = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - began) + 1;
        assertTrue(passed >= 50 && passed <= most, passed + " of at most " + most + " ms");
        Files.writeString(file, "160.00 1.00\n");
        assertTrue(clock.getAsLong() >= 160_000, "the clock shows " + clock.getAsLong());
    }
}
