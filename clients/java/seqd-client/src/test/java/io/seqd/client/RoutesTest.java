package io.seqd.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.junit.jupiter.api.Test;

/** Compares the client with docs/openapi.json. */
class RoutesTest {
    private static final Set<String> METHODS = Set.of("get", "put", "post", "patch", "delete");
    /** Paths whose every operation the client has. The others are commands of operators. */
    private static final String OF_PROGRAMS = "/v1/(ids?|uuids?|sequences|timestamps|locks|tokens|workers|layouts|"
            + "idempotency)(/.*)?";

    private static Answer document() throws IOException {
        Path repository = Path.of("").toAbsolutePath();
        while (!Files.exists(repository.resolve("docs/openapi.json"))) {
            repository = repository.getParent();
            assertNotNull(repository, "docs/openapi.json is in no folder above");
        }
        return Answer.of(Json.read(Files.readString(repository.resolve("docs/openapi.json"))));
    }

    @Test
    void everyRouteOfTheClientIsInTheDocumentAndTheReverse() throws IOException {
        Set<String> documented = new TreeSet<>();
        Set<String> ofPrograms = new TreeSet<>();
        Answer paths = document().object("paths");
        for (String path : paths.fields().keySet()) {
            for (String method : paths.object(path).fields().keySet()) {
                if (METHODS.contains(method)) {
                    String id = paths.object(path).object(method).text("operationId");
                    String route = id + " " + method.toUpperCase(Locale.ROOT) + " " + path;
                    documented.add(route);
                    // The forms by POST of these paths have no use for a client.
                    if (path.matches(OF_PROGRAMS) && !id.startsWith("post_")) {
                        ofPrograms.add(route);
                    }
                }
            }
        }
        Set<String> known = new TreeSet<>();
        for (Operation operation : Operation.values()) {
            known.add(operation.name().toLowerCase(Locale.ROOT) + " " + operation.method + " " + operation.path);
        }
        Set<String> unknown = new TreeSet<>(known);
        unknown.removeAll(documented);
        assertEquals(Set.of(), unknown, "routes that no node serves");
        ofPrograms.removeAll(known);
        assertEquals(Set.of(), ofPrograms, "routes that the client does not have");
    }

    /** Calls each typed method against a stub, and looks up the fields that it sent. */
    @Test
    void everyFieldThatTheClientSendsIsInTheDocument() throws Exception {
        Answer document = document();
        try (Stub stub = new Stub(RoutesTest::answer)) {
            Client client = Client.builder(stub.endpoint()).timeout(Duration.ofSeconds(5)).build();
            client.id("default");
            client.ids("default", 2);
            client.uuids(7, 2);
            client.layout("default");
            client.createSequence("order", Map.of("mode", "segment"));
            client.next("order", 3);
            client.nextOnce("order", 3, "key");
            client.timestamp();
            client.once("key", Once.Options.of("f"), turn -> Map.of("a", 1));
            LockGuard guard = client.lock("job", LockOptions.ofOwner("test").waitFor(Duration.ofSeconds(1)));
            client.callWithin(1000, Operation.RENEW_LOCK, List.of("job"), Hold.renewal("1", 1000));
            guard.release();
            try (Ranges ranges = client.ranges("order", 10)) {
                ranges.next();
            }
            IdGenerator generator = new IdGenerator(client, GeneratorOptions.ofOwner("test").datacenter(0));
            generator.id();
            Layout layout = Layout.of(Answer.of(Json.read(LAYOUT)));
            new ClusterLeases(client).renew(GeneratorOptions.ofOwner("test"),
                    new Minter(layout, 1, "9", 0, 1, ClockPolicy.defaults()), 1000);
            generator.close();
            List<String> wrong = new ArrayList<>();
            stub.requests.forEach(request -> check(document, request, wrong));
            assertEquals(List.of(), wrong);
            assertTrue(stub.requests.size() >= 18, stub.requests.toString());
        }
    }

    private static final String LAYOUT = "{\"name\":\"default\",\"epoch_ms\":0,\"tick_ms\":1,\"time_bits\":48,"
            + "\"datacenter_bits\":0,\"worker_bits\":5,\"sequence_bits\":10,\"order\":\"tick-worker-sequence\","
            + "\"first_sequence\":\"zero\"}";

    private static Stub.Response answer(Stub.Request request) {
        String fence = Long.toString(1L << 45);
        return new Stub.Response(200, "{\"id\":\"1\",\"ids\":[\"1\",\"2\"],\"uuids\":[\"a\"],\"first\":\"1\","
                + "\"last\":\"10\",\"count\":10,\"increment\":\"1\",\"grant\":\"5\",\"returned\":9,\"ranges\":[],"
                + "\"state\":\"first\",\"attempt\":1,\"token\":\"3\",\"claim\":\"4\",\"lease\":\"9\","
                + "\"expires_in_ms\":60000,\"from_tick\":\"0\",\"fence_tick\":\"" + fence + "\","
                + "\"renew_after_ms\":60000,"
                + "\"layout\":" + LAYOUT + "," + LAYOUT.substring(1));
    }

    private static void check(Answer document, Stub.Request request, List<String> wrong) {
        Answer paths = document.object("paths");
        for (String path : paths.fields().keySet()) {
            String method = request.method().toLowerCase(Locale.ROOT);
            if (!request.path().matches(path.replaceAll("\\{[a-z]+}", "[^/]+")) || !paths.object(path).has(method)) {
                continue;
            }
            Answer operation = paths.object(path).object(method);
            Set<String> known = new TreeSet<>();
            for (Answer parameter : operation.objects("parameters")) {
                known.add(parameter.text("name"));
            }
            if (operation.has("requestBody")) {
                Answer schema = operation.object("requestBody").object("content").object("application/json")
                        .object("schema");
                known.addAll(schema.object("properties").fields().keySet());
            }
            Set<String> sent = new TreeSet<>();
            if (!request.body().isEmpty()) {
                sent.addAll(Answer.of(Json.read(request.body())).fields().keySet());
            }
            for (String pair : request.query() == null ? new String[0] : request.query().split("&")) {
                sent.add(pair.substring(0, pair.indexOf('=')));
            }
            sent.removeAll(known);
            if (!sent.isEmpty()) {
                wrong.add(request.method() + " " + path + " has no field " + sent);
            }
            return;
        }
        wrong.add(request + " is no route");
    }
}
