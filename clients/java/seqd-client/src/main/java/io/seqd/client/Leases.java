package io.seqd.client;

/** The three requests of a generator. Tests replace the cluster. */
interface Leases {
    Answer lease(GeneratorOptions options);

    Answer renew(GeneratorOptions options, Minter minter, long limitMs);

    void release(GeneratorOptions options, int worker, String lease, long lastTick);
}
