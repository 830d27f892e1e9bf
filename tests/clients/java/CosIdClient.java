import me.ahoo.cosid.machine.DefaultMachineIdGuarder;
import me.ahoo.cosid.machine.InstanceId;
import me.ahoo.cosid.machine.MachineIdDistributor;
import me.ahoo.cosid.segment.SegmentChainId;
import me.ahoo.cosid.segment.SegmentId;
import me.ahoo.cosid.snowflake.MillisecondSnowflakeId;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;

/** CosId: cosid-core's machine distributor, guarder, snowflake ID and segment chain. */
final class CosIdClient {
    private static final Duration SAFE_GUARD = Duration.ofSeconds(30);
    private static final String NAMESPACE = Checks.RUN + "-cosid";

    public static void main(String[] args) {
        Checks.program(CosIdClient::run);
    }

    private static void run() throws Exception {
        machines();
        overflow();
        snowflakes();
        segments();
    }

    private static void machines() throws Exception {
        InstanceId first = InstanceId.of("10.0.0.1", 8080, false);
        CosIdProxy.Machines process = new CosIdProxy.Machines();
        int machine = process.distribute(NAMESPACE, 10, first, SAFE_GUARD).getMachineId();
        Checks.check("distribute", machine >= 0 && machine < 1024, machine);
        int again =
                new CosIdProxy.Machines()
                        .distribute(NAMESPACE, 10, first, SAFE_GUARD)
                        .getMachineId();
        Checks.equal("the same instance gets the same number", again, machine);

        Set<Integer> numbers = new TreeSet<>(Set.of(machine));
        for (int port = 1; port < 10; port++) {
            InstanceId other = InstanceId.of("10.0.0.2", port, false);
            numbers.add(
                    new CosIdProxy.Machines()
                            .distribute(NAMESPACE, 10, other, SAFE_GUARD)
                            .getMachineId());
        }
        Checks.equal("ten instances have ten numbers", numbers.size(), 10);

        process.guard(NAMESPACE, first, SAFE_GUARD);
        Checks.equal("guard", process.guards.get(), 1);
        var unknown =
                CosIdProxy.send(
                        "PATCH",
                        "/machines/"
                                + NAMESPACE
                                + "?instanceId=10.9.9.9:1&stable=false&safeGuardDuration=PT30S");
        Checks.check(
                "guard of an unknown instance",
                unknown.statusCode() == 400 && unknown.body().contains("\"code\":\"M-02\""),
                unknown.statusCode() + " " + unknown.body());

        DefaultMachineIdGuarder guarder =
                new DefaultMachineIdGuarder(
                        process,
                        Executors.newSingleThreadScheduledExecutor(),
                        Duration.ZERO,
                        Duration.ofMillis(100),
                        SAFE_GUARD);
        guarder.register(NAMESPACE, first);
        guarder.start();
        Checks.check(
                "the guarder guards", Checks.until(() -> process.guards.get() > 5), process.guards);
        guarder.stop();
        process.revert(NAMESPACE, first);
        Checks.check("revert", true, "no exception");
    }

    private static void overflow() {
        String small = NAMESPACE + "-small";
        Set<Integer> numbers = new TreeSet<>();
        for (int port = 1; port <= 2; port++) {
            InstanceId instance = InstanceId.of("10.0.0.3", port, true);
            numbers.add(
                    new CosIdProxy.Machines()
                            .distribute(small, 1, instance, SAFE_GUARD)
                            .getMachineId());
        }
        Checks.equal("one bit has two numbers", numbers, Set.of(0, 1));
        InstanceId third = InstanceId.of("10.0.0.3", 3, true);
        Checks.fails(
                "a third instance is refused",
                () -> new CosIdProxy.Machines().distribute(small, 1, third, SAFE_GUARD),
                "MachineIdOverflowException");
        InstanceId second = InstanceId.of("10.0.0.3", 2, true);
        int again =
                new CosIdProxy.Machines().distribute(small, 1, second, SAFE_GUARD).getMachineId();
        Checks.check("a stable instance keeps its number", numbers.contains(again), again);
        // A client without a guarder asks for a number for ever; a hold lasts 24 h at most.
        Duration forever = MachineIdDistributor.FOREVER_SAFE_GUARD_DURATION;
        Checks.fails(
                "a number for ever is refused",
                () -> new CosIdProxy.Machines().distribute(small, 1, second, forever),
                "at most PT24H");
    }

    private static void snowflakes() throws Exception {
        List<MillisecondSnowflakeId> generators = new ArrayList<>();
        for (int port = 1; port <= 4; port++) {
            InstanceId instance = InstanceId.of("10.0.0.4", port, false);
            int machine =
                    new CosIdProxy.Machines()
                            .distribute(NAMESPACE, 10, instance, SAFE_GUARD)
                            .getMachineId();
            generators.add(new MillisecondSnowflakeId(machine));
        }
        Checks.equal(
                "four generators, 40000 snowflake IDs, all different",
                unique(4, generators::get, 10_000),
                40_000);
    }

    private static void segments() throws Exception {
        List<SegmentId> chains = new ArrayList<>();
        for (int process = 0; process < 4; process++) {
            chains.add(new SegmentChainId(new CosIdProxy.Segments(NAMESPACE, "order", 100)));
        }
        long first = chains.get(0).generate();
        Checks.check("the first ID", first > 0, first);
        Checks.equal(
                "four segment chains, 8000 IDs, all different", unique(4, chains::get, 2000), 8000);
        var unknown = CosIdProxy.send("PATCH", "/segments/" + NAMESPACE + "/unknown?step=10");
        Checks.check(
                "segments of an unknown name", unknown.statusCode() >= 400, unknown.statusCode());
    }

    /** Lets each thread generate IDs, and returns how many different ones there are. */
    private static int unique(
            int threads,
            java.util.function.IntFunction<? extends me.ahoo.cosid.IdGenerator> generator,
            int count)
            throws InterruptedException {
        Set<Long> ids = ConcurrentHashMap.newKeySet();
        List<Thread> running = new ArrayList<>();
        for (int i = 0; i < threads; i++) {
            var own = generator.apply(i);
            running.add(
                    new Thread(
                            () -> {
                                for (int n = 0; n < count; n++) {
                                    ids.add(own.generate());
                                }
                            }));
        }
        running.forEach(Thread::start);
        for (Thread thread : running) {
            thread.join();
        }
        return ids.size();
    }

    private CosIdClient() {}
}
