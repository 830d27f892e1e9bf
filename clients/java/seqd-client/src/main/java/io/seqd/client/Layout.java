package io.seqd.client;

/**
 * How tick, worker and sequence share the 63 bits of an ID. Values that do not fit are refused, never masked.
 *
 * @param epochMs the Unix time at which tick 0 begins
 * @param tickMs the length of a tick: 1, 10 or 1000 milliseconds
 * @param datacenterBits the upper bits of the worker field
 * @param workerBits the lower bits of the worker field
 * @param order {@code tick-worker-sequence} or {@code tick-sequence-worker}
 * @param firstSequence {@code zero}, {@code spread} or {@code random:N}
 */
public record Layout(String name, long epochMs, int tickMs, int timeBits, int datacenterBits, int workerBits,
        int sequenceBits, String order, String firstSequence) {
    static final String WORKER_LAST = "tick-sequence-worker";

    /** The parts of an ID. {@code worker} is the whole field, datacenter bits included. */
    public record Parts(long tick, int worker, int sequence) {}

    /** Checks the definition: an unknown one is an error, because an ID must not be made on a guess. */
    public Layout {
        if (!order.equals("tick-worker-sequence") && !order.equals(WORKER_LAST)) {
            throw unsupported(name, "order " + order);
        }
        if (tickMs != 1 && tickMs != 10 && tickMs != 1000) {
            throw unsupported(name, "a tick of " + tickMs + " ms");
        }
        int field = datacenterBits + workerBits;
        boolean fits = epochMs >= 0 && timeBits >= 1 && timeBits <= 61 && datacenterBits >= 0 && workerBits >= 0
                && field >= 1 && field <= 31 && sequenceBits >= 1 && sequenceBits <= 31
                && timeBits + field + sequenceBits <= 63;
        // The end of the last tick is a time of 63 bits.
        if (!fits || ((1L << timeBits) - 1) > (Long.MAX_VALUE - epochMs) / tickMs - 1) {
            throw unsupported(name, "widths " + timeBits + ", " + field + ", " + sequenceBits);
        }
        int most = 1 << sequenceBits;
        int bound = bound(firstSequence);
        if (bound < 0 || bound > most) {
            throw unsupported(name, "first_sequence " + firstSequence);
        }
    }

    private static SeqdException unsupported(String name, String what) {
        return new SeqdException("unknown-layout", "layout " + name + " has " + what
                + ", which this version does not support", false);
    }

    /** Returns the bound of {@code random:N}, 1 for zero, 0 for spread, and -1 for anything else. */
    static int bound(String firstSequence) {
        if (firstSequence.equals("zero")) {
            return 1;
        }
        if (firstSequence.equals("spread")) {
            return 0;
        }
        if (firstSequence.matches("random:[1-9][0-9]{0,9}")) {
            long bound = Long.parseLong(firstSequence.substring(7));
            return bound <= Integer.MAX_VALUE ? (int) bound : -1;
        }
        return -1;
    }

    static Layout of(Answer sent) {
        return new Layout(sent.text("name"), sent.integer("epoch_ms"), (int) sent.integer("tick_ms"),
                (int) sent.integer("time_bits"), (int) sent.integer("datacenter_bits"),
                (int) sent.integer("worker_bits"), (int) sent.integer("sequence_bits"), sent.text("order"),
                sent.text("first_sequence"));
    }

    /** Returns the bits of the whole worker field. */
    public int fieldBits() {
        return datacenterBits + workerBits;
    }

    /** Returns the last tick. */
    public long maxTick() {
        return (1L << timeBits) - 1;
    }

    /** Returns the number of IDs of one worker in one tick. */
    public int sequences() {
        return 1 << sequenceBits;
    }

    /** Returns the number of workers. */
    public int workers() {
        return 1 << fieldBits();
    }

    /** Returns the tick of a time: negative before the epoch, above {@link #maxTick()} after the end. */
    public long tickAt(long unixMs) {
        return Math.floorDiv(unixMs - epochMs, (long) tickMs);
    }

    /** Returns the Unix time in milliseconds at which a tick begins. */
    public long wallAt(long tick) {
        return tick > (Long.MAX_VALUE - epochMs) / tickMs ? Long.MAX_VALUE : tick * tickMs + epochMs;
    }

    /** Returns the distance of two IDs of one tick whose sequences follow each other. */
    long step() {
        return order.equals(WORKER_LAST) ? 1L << fieldBits() : 1;
    }

    /** Joins parts that are known to fit. */
    long join(long tick, int worker, int sequence) {
        long high = tick << (fieldBits() + sequenceBits);
        return order.equals(WORKER_LAST) ? high | (long) sequence << fieldBits() | worker
                : high | (long) worker << sequenceBits | sequence;
    }

    /** Returns the ID of these parts. */
    public long pack(long tick, int worker, int sequence) {
        if (tick < 0 || tick > maxTick() || worker < 0 || worker >= workers() || sequence < 0
                || sequence >= sequences()) {
            throw SeqdException.invalid("tick " + tick + ", worker " + worker + ", sequence " + sequence
                    + " do not fit layout " + name);
        }
        return join(tick, worker, sequence);
    }

    /** Returns the parts of an ID. */
    public Parts unpack(long id) {
        int bits = timeBits + fieldBits() + sequenceBits;
        if (id < 0 || bits < 63 && id >> bits != 0) {
            throw SeqdException.invalid(id + " is not an ID of layout " + name + ", which uses " + bits + " bits");
        }
        boolean last = order.equals(WORKER_LAST);
        int worker = (int) (id >> (last ? 0 : sequenceBits) & workers() - 1L);
        int sequence = (int) (id >> (last ? fieldBits() : 0) & sequences() - 1L);
        return new Parts(id >> fieldBits() + sequenceBits, worker, sequence);
    }
}
