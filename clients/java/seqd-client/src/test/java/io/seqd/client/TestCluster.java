package io.seqd.client;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.HttpURLConnection;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;

/** Three nodes with TLS and tokens, which clients/cluster.py has started. */
final class TestCluster {
    /** The window of clients/cluster.py. */
    static final long WINDOW_MS = 6000;

    /** The URLs of the nodes by name. */
    static final Map<String, String> NODES = nodes();

    private TestCluster() {}

    private static Map<String, String> nodes() {
        Map<String, String> nodes = new LinkedHashMap<>();
        for (String node : System.getenv("NODES").split(",")) {
            nodes.put(node.substring(0, node.indexOf('=')), node.substring(node.indexOf('=') + 1));
        }
        return nodes;
    }

    /** Sends a command such as {@code /kill/leader}, and returns the name of the node. */
    static String command(String path) {
        try {
            URI uri = URI.create(System.getenv("CONTROL") + path);
            HttpURLConnection connection = (HttpURLConnection) uri.toURL().openConnection();
            connection.setRequestMethod("POST");
            return new String(connection.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    static String leader() {
        return command("/leader");
    }

    static Client client() {
        return with(Client.fromEnvironment()).build();
    }

    static Client client(String endpoints) {
        return with(Client.builder(endpoints).token(System.getenv("SEQD_TOKEN"))).build();
    }

    /** Adds the certificates. */
    static Client.Builder with(Client.Builder builder) {
        return ca(builder).certificate(Path.of(System.getenv("SEQD_CERT")), Path.of(System.getenv("SEQD_KEY")));
    }

    static Client.Builder ca(Client.Builder builder) {
        return builder.ca(Path.of(System.getenv("SEQD_CACERT")));
    }
}
