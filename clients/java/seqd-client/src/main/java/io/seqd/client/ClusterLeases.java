package io.seqd.client;

import java.util.List;

/** The requests of a generator to a cluster. */
record ClusterLeases(Client client) implements Leases {
    @Override
    public Answer lease(GeneratorOptions options) {
        return client.call(Operation.LEASE_WORKER, List.of(), Client.fields("layout", options.layout, "owner",
                options.owner, "datacenter", options.datacenter));
    }

    @Override
    public Answer renew(GeneratorOptions options, Minter minter, long limitMs) {
        return client.callWithin(limitMs, Operation.RENEW_WORKER, List.of(options.layout, minter.worker()),
                Client.fields("owner", options.owner, "lease", minter.lease()));
    }

    @Override
    public void release(GeneratorOptions options, int worker, String lease, long lastTick) {
        client.call(Operation.RELEASE_WORKER, List.of(options.layout, worker), Client.fields("owner", options.owner,
                "lease", lease, "last_tick", lastTick < 0 ? null : Long.toString(lastTick)));
    }
}
