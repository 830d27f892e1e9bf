import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.Response;
import redis.clients.jedis.params.SetParams;

import java.util.ArrayList;
import java.util.List;
import java.util.stream.LongStream;

/** jedis: counters, nulls, pipelines, scripts and errors, in both protocols. */
final class JedisClient {
    public static void main(String[] args) {
        Checks.program(JedisClient::run);
    }

    private static void run() throws Exception {
        for (RedisProtocol protocol : List.of(RedisProtocol.RESP3, RedisProtocol.RESP2)) {
            System.out.println("# protocol " + protocol);
            DefaultJedisClientConfig config =
                    DefaultJedisClientConfig.builder().protocol(protocol).build();
            try (RedisClient client =
                    RedisClient.builder()
                            .hostAndPort(Checks.host(Checks.REDIS), Checks.port(Checks.REDIS))
                            .clientConfig(config)
                            .build()) {
                exercise(client, Checks.RUN + ":jedis:" + protocol.version());
            }
        }
    }

    private static void exercise(RedisClient client, String name) throws Exception {
        Checks.equal("ping", client.ping(), "PONG");
        Checks.equal("incr", client.incr(name), 1L);
        Checks.equal("incrBy", client.incrBy(name, 99), 100L);
        Checks.equal("get", client.get(name), "100");
        Checks.equal("get of an unknown name", client.get(name + ":unknown"), null);
        Checks.equal(
                "exists and ttl",
                List.of(client.exists(name), client.ttl(name)),
                List.of(true, -1L));

        try (var pipeline = client.pipelined()) {
            List<Response<Long>> replies = new ArrayList<>();
            for (int i = 0; i < 100; i++) {
                replies.add(pipeline.incr(name));
            }
            pipeline.sync();
            Checks.equal(
                    "100 pipelined incr in order",
                    replies.stream().map(Response::get).toList(),
                    LongStream.rangeClosed(101, 200).boxed().toList());
        }

        String lock = name + ":lock";
        Checks.equal("set nx px", client.set(lock, "me", new SetParams().nx().px(5000)), "OK");
        Checks.equal(
                "set nx ex of a held lock",
                client.set(lock, "you", new SetParams().nx().ex(5)),
                null);
        String script =
                "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) "
                        + "else return 0 end";
        Checks.equal("eval by another", client.eval(script, List.of(lock), List.of("you")), 0L);
        String sha = client.scriptLoad(script, lock);
        Checks.equal(
                "evalsha of a loaded script",
                client.evalsha(sha, List.of(lock), List.of("me")),
                1L);
        Checks.fails(
                "evalsha of an unknown script",
                () -> client.evalsha("0".repeat(40), List.of(lock), List.of("me")),
                "NOSCRIPT");

        Checks.fails(
                "an error",
                () -> client.sendCommand(() -> "NOSUCH".getBytes()),
                "ERR unknown command");
        if (Checks.SEQD) {
            Checks.fails(
                    "multi",
                    () -> {
                        try (var transaction = client.multi()) {
                            transaction.incr(name + ":multi");
                            return transaction.exec();
                        }
                    },
                    "no transactions");
            Checks.differences(
                    words -> client.sendCommand(() -> words[0].getBytes(), Checks.rest(words)),
                    name,
                    name + ":unused");
        }
        Checks.equal("incr at the end", client.incr(name), 201L);
    }
}
