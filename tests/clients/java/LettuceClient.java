import io.lettuce.core.ClientOptions;
import io.lettuce.core.LettuceFutures;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.SetArgs;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.ObjectOutput;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.ProtocolVersion;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/** lettuce: counters, nulls, asynchronous calls, scripts and errors, in both protocols. */
final class LettuceClient {
    public static void main(String[] args) {
        Checks.program(LettuceClient::run);
    }

    private static void run() throws Exception {
        for (ProtocolVersion protocol : List.of(ProtocolVersion.RESP3, ProtocolVersion.RESP2)) {
            System.out.println("# protocol " + protocol);
            RedisClient client = RedisClient.create("redis://" + Checks.REDIS);
            client.setOptions(ClientOptions.builder().protocolVersion(protocol).build());
            try (StatefulRedisConnection<String, String> connection = client.connect()) {
                exercise(connection, Checks.RUN + ":lettuce:" + protocol);
            }
            client.shutdown(Duration.ZERO, Duration.ofSeconds(2));
        }
    }

    private static void exercise(StatefulRedisConnection<String, String> connection, String name)
            throws Exception {
        RedisCommands<String, String> client = connection.sync();
        Checks.equal("ping", client.ping(), "PONG");
        Checks.equal("incr", client.incr(name), 1L);
        Checks.equal("incrby", client.incrby(name, 99), 100L);
        Checks.equal("get", client.get(name), "100");
        Checks.equal("get of an unknown name", client.get(name + ":unknown"), null);

        List<RedisFuture<Long>> futures = new ArrayList<>();
        for (int i = 0; i < 100; i++) {
            futures.add(connection.async().incr(name));
        }
        LettuceFutures.awaitAll(Duration.ofSeconds(10), futures.toArray(RedisFuture[]::new));
        boolean rising = true;
        for (int i = 0; i < 100; i++) {
            rising &= futures.get(i).get() == 101 + i;
        }
        Checks.check("100 incr without waiting, in order", rising, futures.get(99).get());

        String lock = name + ":lock";
        Checks.equal("set nx px", client.set(lock, "me", SetArgs.Builder.nx().px(5000)), "OK");
        Checks.equal(
                "set nx px of a held lock",
                client.set(lock, "you", SetArgs.Builder.nx().px(5000)),
                null);
        String script =
                "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) "
                        + "else return 0 end";
        String[] keys = {lock};
        Checks.equal(
                "eval by another", client.eval(script, ScriptOutputType.INTEGER, keys, "you"), 0L);
        String sha = client.scriptLoad(script);
        Checks.equal(
                "script exists", client.scriptExists(sha, "0".repeat(40)), List.of(true, false));
        Checks.equal(
                "evalsha of a loaded script",
                client.evalsha(sha, ScriptOutputType.INTEGER, keys, "me"),
                1L);

        Checks.fails("an error", () -> dispatch(client, "NOSUCH"), "ERR unknown command");
        if (Checks.SEQD) {
            Checks.differences(words -> dispatch(client, words), name, name + ":unused");
        }
        Checks.equal("incr at the end", client.incr(name), 201L);
    }

    private static Object dispatch(RedisCommands<String, String> client, String... words) {
        CommandArgs<String, String> arguments = new CommandArgs<>(StringCodec.UTF8);
        for (String word : Checks.rest(words)) {
            arguments.add(word);
        }
        return client.dispatch(
                () -> words[0].getBytes(), new ObjectOutput<>(StringCodec.UTF8), arguments);
    }
}
