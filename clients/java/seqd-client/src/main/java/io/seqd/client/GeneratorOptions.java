package io.seqd.client;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.function.LongSupplier;

/** The options of an {@link IdGenerator}. */
public final class GeneratorOptions {
    private static final int MAX_OWNER_BYTES = 255;

    final String owner;
    String layout = "default";
    Integer datacenter;
    ClockPolicy clock = ClockPolicy.defaults();
    /** A slow election and the recovery after it. */
    Duration patience = Duration.ofSeconds(5);
    LongSupplier wallMs = System::currentTimeMillis;

    private GeneratorOptions(String owner) {
        this.owner = owner;
    }

    /**
     * Returns the defaults for an owner: the name of a host, pod or service, of 1 to 255 bytes. After a clean end the
     * same owner receives the same worker if it is free. Two generators with one owner hold two workers.
     */
    public static GeneratorOptions ofOwner(String owner) {
        int bytes = owner.getBytes(StandardCharsets.UTF_8).length;
        if (bytes < 1 || bytes > MAX_OWNER_BYTES || owner.chars().anyMatch(Character::isISOControl)) {
            throw SeqdException.invalid("an owner has 1 to 255 bytes without control characters");
        }
        return new GeneratorOptions(owner);
    }

    /** Sets the layout, {@code default} by default. */
    public GeneratorOptions layout(String layout) {
        this.layout = layout;
        return this;
    }

    /** Sets the datacenter, for a layout that has datacenters. Any datacenter by default. */
    public GeneratorOptions datacenter(Integer datacenter) {
        this.datacenter = datacenter;
        return this;
    }

    /** Sets the tolerances for the wall clock. */
    public GeneratorOptions clock(ClockPolicy clock) {
        this.clock = clock;
        return this;
    }

    /** Sets how long a call waits for a tick, a lease or a free worker, 5 s by default. */
    public GeneratorOptions patience(Duration patience) {
        this.patience = patience;
        return this;
    }

    /** Sets the wall clock, in Unix milliseconds. For tests. */
    public GeneratorOptions wallClock(LongSupplier wallMs) {
        this.wallMs = wallMs;
        return this;
    }
}
