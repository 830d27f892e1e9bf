package io.seqd.client;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** The examples of docs/clients/JAVA.md: they compile, and the page has them as they are. */
class ExamplesTest {
    static void ids() {
        Client client = Client.builder("127.0.0.1:7400,127.0.0.1:7410,127.0.0.1:7420").build();
        System.out.println(client.id("default"));
    }

    static void secured() {
        Client client = Client.builder("n1.example,n2.example,n3.example")
                .token(System.getenv("SEQD_TOKEN"))
                .ca(Path.of("ca.crt"))
                .certificate(Path.of("orders.crt"), Path.of("orders.key"))
                .timeout(Duration.ofSeconds(2))
                .build();
        System.out.println(client.timestamp());
    }

    static void local(Client client) {
        try (IdGenerator generator = new IdGenerator(client, GeneratorOptions.ofOwner("orders-1"))) {
            // A service that cannot make IDs at its start should not call itself ready.
            generator.ready();
            System.out.println(generator.id());
        }
    }

    static void values(Client client) {
        client.createSequence("order", Map.of("mode", "segment"));
        try (Ranges ranges = client.ranges("order", 10_000)) {
            System.out.println(ranges.next());
        }
    }

    static void locked(Client client) {
        LockOptions options = LockOptions.ofOwner("host-1").ttl(Duration.ofSeconds(30));
        try (LockGuard lock = client.lock("nightly-report", options)) {
            Thread worker = Thread.currentThread();
            lock.lost().thenAccept(lost -> worker.interrupt());
            report(lock.token());
        }
    }

    private static void report(long token) {
        System.out.println(token);
    }

    static void once(Client client) {
        Once.Options options = Once.Options.of("42:19.90");
        Once.Result paid = client.once("pay/order-42", options, turn -> Map.of("payment", "p-9"));
        System.out.println(paid.value() + " " + paid.replayed());
    }

    @Test
    void thePageHasTheExamples() throws IOException {
        Path repository = Path.of("").toAbsolutePath();
        while (!Files.exists(repository.resolve("docs/clients/JAVA.md"))) {
            repository = repository.getParent();
        }
        String here = trimmed(Files.readString(repository.resolve(
                "clients/java/seqd-client/src/test/java/io/seqd/client/ExamplesTest.java")));
        String[] blocks = Files.readString(repository.resolve("docs/clients/JAVA.md")).split("```java\n");
        assertTrue(blocks.length > 5, "only " + blocks.length);
        for (int at = 1; at < blocks.length; at++) {
            String block = blocks[at].substring(0, blocks[at].indexOf("```"));
            assertTrue(here.contains(trimmed(block)), block);
        }
    }

    private static String trimmed(String text) {
        return String.join("\n", text.lines().map(String::strip).toList());
    }
}
