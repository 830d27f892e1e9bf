package io.seqd.client;

import java.time.Duration;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/** The rates of one thread: local IDs, values of ranges, and {@code next}, as ratios to a bare atomic increment. */
final class Bench {
    private static final long SECONDS = 3;

    private Bench() {}

    /** One step of a loop; it returns how many values it made. */
    private interface Step {
        int take();
    }

    public static void main(String[] args) throws Exception {
        Client client = TestCluster.client();
        client.createSequence("bench", Map.of("mode", "segment"));
        AtomicLong counter = new AtomicLong();
        double bare = rate("bare loop, an atomic increment", 0, () -> {
            for (int at = 0; at < 1000; at++) {
                counter.incrementAndGet();
            }
            return 1000;
        });
        GeneratorOptions options = GeneratorOptions.ofOwner("bench").patience(Duration.ofSeconds(10));
        try (IdGenerator generator = new IdGenerator(client, options)) {
            generator.ready();
            rate("local IDs, one per call", bare, () -> {
                generator.id();
                return 1;
            });
            rate("local IDs, 1000 per call", bare, () -> generator.ids(1000).length);
        }
        try (Ranges ranges = client.ranges("bench", 10_000_000)) {
            ranges.next();
            rate("ranges", bare, () -> {
                ranges.next();
                return 1;
            });
        }
        rate("next, a request each", bare, () -> {
            client.next("bench");
            return 1;
        });
    }

    private static double rate(String name, double bare, Step step) {
        double rate = 0;
        // The first round compiles the loop.
        for (int round = 0; round < 2; round++) {
            long began = System.nanoTime();
            long made = 0;
            long took = 0;
            while (took < TimeUnit.SECONDS.toNanos(SECONDS)) {
                for (int at = 0; at < 100; at++) {
                    made += step.take();
                }
                took = System.nanoTime() - began;
            }
            rate = made * 1e9 / took;
        }
        String ratio = bare == 0 ? "" : String.format("  %.6f of the bare loop", rate / bare);
        System.out.printf("%-32s %,14.0f/s%s%n", name, rate, ratio);
        return rate;
    }
}
