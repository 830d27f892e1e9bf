package io.seqd.client;

import java.io.IOException;
import java.lang.ref.Cleaner;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.Executor;
import java.util.function.Function;
import java.util.function.Supplier;

/**
 * A client of one cluster. It is safe for use by many threads.
 *
 * <p>A request is sent to the endpoint of the last good response, and to the next one only if that is certainly
 * harmless. A request that may have taken effect and has no response fails with {@code outcome-unknown} and is never
 * sent again.
 */
public final class Client {
    /** Ends the threads of generators and ranges that are no longer reachable. */
    static final Cleaner CLEANER = Cleaner.create();

    private static final SecureRandom RANDOM = new SecureRandom();

    private final Transport transport;

    private Client(Builder builder) {
        boolean isSecure = builder.ca != null || builder.certificate != null;
        List<Endpoint> endpoints = Endpoint.parseList(builder.endpoints, isSecure);
        boolean anyTls = endpoints.stream().anyMatch(Endpoint::isHttps);
        this.transport = new Transport(endpoints, builder.timeout, builder.token,
                anyTls ? Tls.context(builder.ca, builder.certificate, builder.key) : null);
    }

    /** Begins a client of these endpoints: {@code host}, {@code host:port} or URLs, separated by commas. */
    public static Builder builder(String endpoints) {
        return new Builder(endpoints);
    }

    /**
     * Begins a client of {@code SEQD_ENDPOINTS}, or of 127.0.0.1:7400 without it, with {@code SEQD_TOKEN} or the text
     * of the file {@code SEQD_TOKEN_FILE}, {@code SEQD_CACERT}, {@code SEQD_CERT} and {@code SEQD_KEY}.
     */
    public static Builder fromEnvironment() {
        return fromEnvironment(System.getenv());
    }

    static Builder fromEnvironment(Map<String, String> variables) {
        Function<String, String> get = name -> {
            String value = variables.get(name);
            return value == null || value.isEmpty() ? null : value;
        };
        Function<String, Path> path = get.andThen(value -> value == null ? null : Path.of(value));
        String endpoints = get.apply("SEQD_ENDPOINTS");
        Builder builder = builder(endpoints == null ? "127.0.0.1:7400" : endpoints).token(get.apply("SEQD_TOKEN"))
                .ca(path.apply("SEQD_CACERT")).certificate(path.apply("SEQD_CERT"), path.apply("SEQD_KEY"));
        Path file = path.apply("SEQD_TOKEN_FILE");
        return builder.token != null || file == null ? builder : builder.tokenFile(file);
    }

    /** The options of a client. */
    public static final class Builder {
        private final String endpoints;
        private String token;
        private Duration timeout;
        private Path ca;
        private Path certificate;
        private Path key;

        private Builder(String endpoints) {
            this.endpoints = endpoints;
        }

        /** Sets the access token, for nodes that require one. */
        public Builder token(String token) {
            if (token != null && !token.matches("[\\x21-\\x7e]+")) {
                throw SeqdException.invalid("a token has printable ASCII characters only, and this one has others: "
                        + "remove the line break of a file with strip()");
            }
            this.token = token;
            return this;
        }

        /** Sets the access token to the text of a file, without the line break at its end. */
        public Builder tokenFile(Path file) {
            try {
                return token(Files.readString(file).strip());
            } catch (IOException unreadable) {
                throw SeqdException.invalid("the token file cannot be read: " + unreadable);
            }
        }

        /**
         * Sets the deadline of one request, which all endpoints share, 3 s by default. The call ends half a second
         * after it, so that the response about a missed deadline arrives.
         */
        public Builder timeout(Duration timeout) {
            if (timeout != null && timeout.toMillis() < 1) {
                throw SeqdException.invalid("a timeout is at least 1 ms, not " + timeout);
            }
            this.timeout = timeout;
            return this;
        }

        /** Sets the PEM file with the CAs of the nodes, by default those of the system. It implies https. */
        public Builder ca(Path ca) {
            this.ca = ca;
            return this;
        }

        /**
         * Sets the PEM files of this client's certificate and key (PKCS#8), for nodes that require one. They imply
         * https.
         */
        public Builder certificate(Path certificate, Path key) {
            this.certificate = certificate;
            this.key = key;
            return this;
        }

        /** Returns the client. It does not connect yet. */
        public Client build() {
            return new Client(this);
        }
    }

    /**
     * Sends a request of any operation.
     *
     * @param parameters the parameters of the path in order
     * @param fields the fields of the body or the query; null values are left out
     */
    public Answer call(Operation operation, List<?> parameters, Map<String, ?> fields) {
        return transport.send(prepare(operation, parameters, fields, null));
    }

    Answer callWithin(long limitMs, Operation operation, List<?> parameters, Map<String, ?> fields) {
        return transport.send(prepare(operation, parameters, fields, null), limitMs);
    }

    private static Transport.Call prepare(Operation operation, List<?> parameters, Map<String, ?> fields, String key) {
        Map<String, Object> sent = new LinkedHashMap<>();
        fields.forEach((name, value) -> {
            if (value != null) {
                sent.put(name, value);
            }
        });
        boolean isRepeatable = key != null || switch (operation.repeat) {
            case HARMLESS -> true;
            case WITH_NONCE -> sent.get("nonce") instanceof String nonce && !nonce.isEmpty();
            case NEVER -> false;
        };
        long waitMs = operation.waits && sent.get("wait_ms") instanceof Number wait ? wait.longValue() : 0;
        boolean inQuery = operation.method.equals("GET") || operation.method.equals("DELETE");
        Map<String, String> query = new LinkedHashMap<>();
        if (inQuery) {
            sent.forEach((name, value) -> query.put(name, value.toString()));
        }
        return new Transport.Call(operation.method, operation.path(parameters), query,
                inQuery ? null : Json.write(sent), key, !isRepeatable, waitMs);
    }

    /** Returns one ID of a layout, minted by a node. */
    public long id(String layout) {
        return read(() -> call(Operation.ID, List.of(), fields("layout", layout)).integer("id"));
    }

    /** Returns 1 to 10,000 IDs of a layout, strictly increasing, minted by one node. */
    public long[] ids(String layout, int count) {
        return read(() -> call(Operation.IDS, List.of(), fields("layout", layout, "count", count)).integers("ids"));
    }

    /** Returns UUIDs of version 7 or 4. */
    public List<String> uuids(int version, int count) {
        return read(() -> call(Operation.UUIDS, List.of(), fields("version", version, "count", count)).texts("uuids"));
    }

    /** Returns the definition of a layout, which packs and unpacks IDs without a request. */
    public Layout layout(String name) {
        return read(() -> Layout.of(call(Operation.LAYOUT, List.of(name), Map.of())));
    }

    /**
     * Creates a sequence, or returns an equal one that exists. A different one is {@code already-exists}.
     *
     * @param definition such as {@code Map.of("mode", "segment")}: mode, start, increment, min, max, cycle, description
     */
    public Answer createSequence(String name, Map<String, ?> definition) {
        return call(Operation.CREATE_SEQUENCE, List.of(name), definition);
    }

    /** A range of values: {@code count} of them, from first to last. */
    public record Range(long first, long last, long count) {}

    /** Returns the next value of a sequence. */
    public long next(String name) {
        List<Range> ranges = next(name, 1);
        if (ranges.isEmpty()) {
            throw new SeqdException("bad-answer", "the response has no value", false);
        }
        return ranges.get(0).first();
    }

    /** Returns the next values of a sequence as ranges. */
    public List<Range> next(String name, int count) {
        return ranges(call(Operation.NEXT, List.of(name), fields("count", count)));
    }

    /**
     * Returns the next values of a sequence, at most 1000, once for this key: a request that is sent again after
     * {@code outcome-unknown} returns the same values.
     */
    public List<Range> nextOnce(String name, int count, String idempotencyKey) {
        if (!idempotencyKey.matches("[\\x20-\\x7e]{1,255}")) {
            throw SeqdException.invalid("an idempotency key has 1 to 255 printable ASCII characters");
        }
        return ranges(transport.send(
                prepare(Operation.NEXT, List.of(name), fields("count", count), idempotencyKey)));
    }

    private static List<Range> ranges(Answer next) {
        return read(() -> next.objects("ranges").stream()
                .map(range -> new Range(range.integer("first"), range.integer("last"), range.integer("count")))
                .toList());
    }

    /** Returns a timestamp above every earlier one of the cluster: Unix milliseconds times 2^18, and a counter. */
    public long timestamp() {
        return read(() -> call(Operation.TIMESTAMPS, List.of(), Map.of()).integer("first"));
    }

    /** Begins to draw values of a segment sequence from memory. */
    public Ranges ranges(String name, int size) {
        return new Ranges(this, name, size, Duration.ofSeconds(5));
    }

    /** Acquires a lock, and waits for it as the options state. The guard renews it until it is released. */
    public LockGuard lock(String name, LockOptions options) {
        return LockGuard.acquire(this, name, options);
    }

    /** Performs work unless it was already performed for this key, and returns its result to all callers. */
    public <E extends Exception> Once.Result once(String key, Once.Options options, Once.Work<E> work) throws E {
        return Once.perform(this, key, options, work);
    }

    /** Returns 128 random bits in hexadecimal, by which the cluster recognizes a repeated request. */
    static String nonce() {
        byte[] bytes = new byte[16];
        RANDOM.nextBytes(bytes);
        return HexFormat.of().formatHex(bytes);
    }

    /** Returns a map that may contain null values. */
    static Map<String, Object> fields(Object... pairs) {
        Map<String, Object> fields = new LinkedHashMap<>();
        for (int at = 0; at < pairs.length; at += 2) {
            fields.put((String) pairs[at], pairs[at + 1]);
        }
        return fields;
    }

    /** Completes a call also on a thread that is interrupted, before the call or during it, and stays interrupted. */
    static <T> T uninterrupted(Supplier<T> call) {
        Executor other = task -> {
            try {
                new Thread(task, "seqd-completion").start();
            } catch (OutOfMemoryError noThread) {
                task.run();
            }
        };
        try {
            return CompletableFuture.supplyAsync(call, other).join();
        } catch (CompletionException failed) {
            if (failed.getCause() instanceof Error error) {
                throw error;
            }
            throw failed.getCause() instanceof RuntimeException cause ? cause : failed;
        }
    }

    /** Reads a response. A missing or wrong field is an error of its own. */
    static <T> T read(Supplier<T> reader) {
        try {
            return reader.get();
        } catch (IllegalArgumentException unreadable) {
            throw new SeqdException("bad-answer", unreadable.getMessage(), false, unreadable);
        }
    }
}
