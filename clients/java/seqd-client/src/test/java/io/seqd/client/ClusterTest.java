package io.seqd.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;

/** The client against three nodes with TLS and tokens. */
@EnabledIfEnvironmentVariable(named = "CONTROL", matches = ".+")
class ClusterTest {
    private static boolean isShort() {
        return System.getenv("SHORT") != null;
    }

    private static void assertDistinct(long[] ids) {
        long distinct = Arrays.stream(ids).parallel().sorted().distinct().count();
        assertEquals(ids.length, distinct, "duplicates");
    }

    @Test
    void aMillionIdsAreDistinctOverALeadersDeath() throws Exception {
        int total = isShort() ? 200_000 : 1_000_000;
        int threads = 4;
        Client client = TestCluster.client();
        IdGenerator generator = new IdGenerator(client, GeneratorOptions.ofOwner("million"));
        generator.ready();
        // The minting lasts for more than a window, so that it needs a renewal by the new leader.
        long pauseMs = (TestCluster.WINDOW_MS + 2000) * threads / (total / 1000);
        List<CompletableFuture<long[]>> parts = new ArrayList<>();
        for (int thread = 0; thread < threads; thread++) {
            parts.add(CompletableFuture.supplyAsync(() -> {
                long[] made = new long[total / threads];
                for (int at = 0; at < made.length; at += 1000) {
                    System.arraycopy(generator.ids(1000), 0, made, at, 1000);
                    sleep(pauseMs);
                }
                return made;
            }));
        }
        TestCluster.command("/kill/leader");
        long killed = System.currentTimeMillis();
        LongStream all = LongStream.empty();
        for (CompletableFuture<long[]> part : parts) {
            all = LongStream.concat(all, Arrays.stream(part.get(120, TimeUnit.SECONDS)));
        }
        long[] ids = all.toArray();
        assertEquals(total, ids.length);
        assertDistinct(ids);
        assertEquals(1, generator.status().leases());
        assertTrue(generator.status().windowEndsMs() > killed + TestCluster.WINDOW_MS);
        int worker = generator.status().worker();
        generator.close();
        IdGenerator again = new IdGenerator(client, GeneratorOptions.ofOwner("million"));
        again.ready();
        assertEquals(worker, again.status().worker(), "the same owner gets its worker back");
        assertTrue(again.id() > Arrays.stream(ids).max().getAsLong());
        again.close();
        TestCluster.command("/start");
    }

    private static void sleep(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException interrupted) {
            throw new IllegalStateException(interrupted);
        }
    }

    @Test
    void aProcessFrozenPastItsWindowMintsNoDuplicate() throws Exception {
        ProcessBuilder builder = new ProcessBuilder(System.getProperty("java.home") + "/bin/java", "-cp",
                System.getProperty("java.class.path"), "io.seqd.client.Frozen", "frozen");
        Process process = builder.redirectError(ProcessBuilder.Redirect.INHERIT).start();
        Set<String> seen = new HashSet<>();
        try (BufferedReader out = process.inputReader()) {
            for (int line = 0; line < 5000; line++) {
                assertTrue(seen.add(out.readLine()));
            }
            signal(process, "STOP");
            // The worker is free after its window, and the same owner takes it.
            sleep(TestCluster.WINDOW_MS + 1000);
            IdGenerator other = new IdGenerator(TestCluster.client(), GeneratorOptions.ofOwner("frozen"));
            for (int batch = 0; batch < 50; batch++) {
                for (long id : other.ids(1000)) {
                    assertTrue(seen.add(Long.toString(id)));
                }
            }
            signal(process, "CONT");
            int minted = 0;
            for (String line = out.readLine(); line != null; line = out.readLine()) {
                if (Character.isDigit(line.charAt(0))) {
                    assertTrue(seen.add(line), line);
                    if (++minted == 5000) {
                        process.outputWriter().append('\n').flush();
                    }
                    assertTrue(seen.add(Long.toString(other.id())));
                } else if (line.startsWith("leases")) {
                    assertEquals("leases 2", line);
                }
            }
            assertTrue(minted >= 5000);
            other.close();
        } finally {
            process.destroyForcibly();
        }
    }

    private static void signal(Process process, String name) throws Exception {
        assertEquals(0, new ProcessBuilder("kill", "-" + name, Long.toString(process.pid())).start().waitFor());
    }

    @Test
    void clockStepsAreWaitedForOrRefused() {
        AtomicLong offset = new AtomicLong();
        GeneratorOptions options = GeneratorOptions.ofOwner("steps").patience(Duration.ofSeconds(2))
                .wallClock(() -> System.currentTimeMillis() + offset.get());
        IdGenerator generator = new IdGenerator(TestCluster.client(), options);
        Set<Long> seen = new HashSet<>();
        assertTrue(seen.add(generator.id()));
        offset.set(-30);
        assertTrue(seen.add(generator.id()));
        offset.set(-10_000);
        SeqdException behind = assertThrows(SeqdException.class, generator::id);
        assertEquals("clock-behind", behind.code());
        offset.set(5_000);
        SeqdException jumped = assertThrows(SeqdException.class, generator::id);
        assertEquals("clock-jumped", jumped.code());
        assertTrue(behind.retryable() && jumped.retryable());
        offset.set(0);
        for (int batch = 0; batch < 20; batch++) {
            for (long id : generator.ids(1000)) {
                assertTrue(seen.add(id));
            }
        }
        assertEquals(1, generator.status().leases());
        generator.close();
    }

    @Test
    void aLockIsExclusiveAndItsLossIsNoticedInTime() throws Exception {
        Client client = TestCluster.client();
        LockOptions options = LockOptions.ofOwner("test").ttl(Duration.ofSeconds(2)).waitFor(Duration.ZERO);
        LockGuard first = client.lock("job", options);
        SeqdException held = assertThrows(SeqdException.class, () -> client.lock("job", options));
        assertEquals("lock-held", held.code());
        // It is renewed past its ttl.
        sleep(3000);
        assertTrue(first.isHeld());
        client.call(Operation.BREAK_LOCK, List.of("job"), Map.of());
        assertEquals("taken-away", first.lost().get(20, TimeUnit.SECONDS).reason());
        LockGuard second = client.lock("job", options);
        assertTrue(second.token() > first.token());
        first.close();
        assertTrue(second.isHeld());

        // Without any node the holder gives up before the cluster would grant the lock again.
        Set<String> nodes = TestCluster.NODES.keySet();
        nodes.forEach(node -> TestCluster.command("/stop/" + node));
        try {
            assertEquals("ran-out", second.lost().get(20, TimeUnit.SECONDS).reason());
            assertFalse(second.isHeld());
        } finally {
            nodes.forEach(node -> TestCluster.command("/continue/" + node));
        }
        TestCluster.leader();
        try (LockGuard third = client.lock("job", options.waitFor(Duration.ofSeconds(20)))) {
            assertTrue(third.token() > second.token());
        }
    }

    @Test
    void requestsPassAFrozenNodeAndNoneIsUnknown() throws Exception {
        Client client = TestCluster.client();
        client.createSequence("passing", Map.of("mode", "strict"));
        String leader = TestCluster.leader();
        List<String> others = new ArrayList<>(TestCluster.NODES.keySet());
        others.remove(leader);
        // The frozen node is the first of the list, and has never responded to this client.
        Map<String, String> nodes = TestCluster.NODES;
        Client fresh = TestCluster.client(nodes.get(others.get(0)) + "," + nodes.get(leader));
        TestCluster.command("/stop/" + others.get(0));
        try {
            Set<Long> seen = new HashSet<>();
            for (int at = 0; at < 20; at++) {
                assertTrue(seen.add(fresh.next("passing")));
            }
            assertTrue(fresh.id("default") > 0);
        } finally {
            TestCluster.command("/continue/" + others.get(0));
        }
        Client noToken = TestCluster.with(Client.fromEnvironment().token(null)).build();
        assertEquals("unauthorized", assertThrows(SeqdException.class, () -> noToken.id("default")).code());
        Client noCertificate = TestCluster.ca(Client.fromEnvironment()).certificate(null, null).build();
        assertEquals("unreachable", assertThrows(SeqdException.class, () -> noCertificate.next("passing")).code());
    }

    @Test
    void rangesAreDistinctAndTheirTailsReturned() {
        Client client = TestCluster.client();
        client.createSequence("ranges", Map.of("mode", "segment"));
        Set<Long> seen = new HashSet<>();
        Ranges ranges = client.ranges("ranges", 1000);
        long last = 0;
        for (int at = 0; at < 2550; at++) {
            long value = ranges.next();
            assertTrue(seen.add(value) && value > last);
            last = value;
        }
        Ranges.Closed closed = ranges.end();
        assertTrue(closed.returned() > 0 && closed.lost() == 0, closed.toString());
        assertEquals("closed", assertThrows(SeqdException.class, ranges::next).code());
        try (Ranges again = client.ranges("ranges", 1000)) {
            long value = again.next();
            assertTrue(seen.add(value));
            assertEquals(last + 1, value, "returned values are granted again");
        }
        SeqdException missing = assertThrows(SeqdException.class, () -> client.ranges("absent", 10).next());
        assertEquals("not-found", missing.code());
    }

    @Test
    void aResultIsReadAsDeepAsNodesAccept() {
        Client client = TestCluster.client();
        for (int levels : new int[] {63, 64, 126}) {
            Object result = 1L;
            for (int level = 0; level < levels; level++) {
                result = List.of(result);
            }
            Object nested = result;
            for (boolean replayed : new boolean[] {false, true}) {
                Once.Result once = client.once("deep-" + levels, Once.Options.of(""), turn -> nested);
                assertEquals(new Once.Result(nested, replayed), once);
            }
        }
        Object result = 1L;
        for (int level = 0; level < 127; level++) {
            result = List.of(result);
        }
        Object tooDeep = result;
        SeqdException refused = assertThrows(SeqdException.class,
                () -> client.once("too-deep", Once.Options.of(""), turn -> tooDeep));
        assertEquals("not-kept", refused.code());
        assertTrue(refused.getMessage().contains("was refused"), refused.getMessage());
    }

    @Test
    void workIsDoneOnceAndTheTypedCallsWork() {
        Client client = TestCluster.client();
        AtomicLong calls = new AtomicLong();
        Once.Options options = Once.Options.of("42");
        for (int at = 0; at < 3; at++) {
            Once.Result once = client.once("pay/42 a%2F", options, turn -> Map.of("paid", calls.incrementAndGet()));
            assertEquals(at > 0, once.replayed());
            assertEquals("{\"paid\":1}", Json.write(once.value()));
        }
        assertThrows(IllegalStateException.class, () -> client.once("fails", options, turn -> {
            throw new IllegalStateException("the work fails");
        }));
        assertEquals(2L, client.once("fails", options, turn -> turn.attempt()).value());
        assertEquals("fingerprint-mismatch", assertThrows(SeqdException.class,
                () -> client.once("fails", Once.Options.of("43"), turn -> 1)).code());

        client.createSequence("typed", Map.of("mode", "segment"));
        List<Client.Range> once = client.nextOnce("typed", 10, "key-1");
        assertEquals(once, client.nextOnce("typed", 10, "key-1"));
        assertEquals(10, client.next("typed", 10).stream().mapToLong(Client.Range::count).sum());
        assertEquals(100, client.ids("twitter", 100).length);
        assertTrue(client.timestamp() < client.timestamp());
        assertEquals(3, client.uuids(7, 3).size());
        long id = client.id("default");
        Answer parts = client.call(Operation.ID_PARTS, List.of(id), Map.of());
        Layout.Parts local = client.layout("default").unpack(id);
        assertEquals(parts.integer("tick"), local.tick());
        assertEquals(parts.integer("worker"), local.worker());
        assertEquals(parts.text("base62"), IdFormat.BASE62.encode(id));
        assertEquals(parts.text("crockford"), IdFormat.CROCKFORD.encode(id));
        assertEquals(id, IdFormat.BASE62.parse(parts.text("base62")));
    }
}
