import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.integration.redis.util.RedisLockRegistry;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Lock;

/**
 * Spring Integration's RedisLockRegistry over lettuce: re-entry, renewal, release, expiry,
 * contenders.
 */
final class SpringLockRegistry {
    private static final String REGISTRY = Checks.RUN + ":spring";

    public static void main(String[] args) {
        Checks.program(SpringLockRegistry::run);
    }

    private static void run() throws Exception {
        List<LettuceConnectionFactory> factories = new ArrayList<>();
        for (String node : Checks.NODES) {
            LettuceConnectionFactory factory =
                    new LettuceConnectionFactory(Checks.host(node), Checks.port(node));
            factory.afterPropertiesSet();
            factory.start();
            factories.add(factory);
        }
        RedisLockRegistry first = registry(factories, 0, 5000);
        RedisLockRegistry other = registry(factories, factories.size() - 1, 5000);
        locks(first, other);
        expiry(registry(factories, 0, 300), other);

        List<RedisLockRegistry> registries = new ArrayList<>();
        for (int i = 0; i < 6; i++) {
            registries.add(registry(factories, i % factories.size(), 10_000));
        }
        Checks.contend(
                "contenders exclude each other",
                (contender, work) -> {
                    Lock lock = registries.get(contender).obtain("contended");
                    lock.lock();
                    work.run();
                    lock.unlock();
                });
    }

    private static RedisLockRegistry registry(
            List<LettuceConnectionFactory> factories, int node, long ttlMs) {
        RedisLockRegistry registry = new RedisLockRegistry(factories.get(node), REGISTRY, ttlMs);
        registry.setIdleBetweenTries(Duration.ofMillis(20));
        return registry;
    }

    private static void locks(RedisLockRegistry first, RedisLockRegistry other) throws Exception {
        Lock lock = first.obtain("one");
        Lock foreign = other.obtain("one");
        lock.lock();
        Checks.equal(
                "tryLock by another registry", foreign.tryLock(100, TimeUnit.MILLISECONDS), false);
        Checks.equal("tryLock again by the holder", lock.tryLock(), true);
        first.renewLock("one");
        Checks.check("renewLock", true, "no exception");
        lock.unlock();
        Checks.equal(
                "still held after the inner unlock",
                foreign.tryLock(100, TimeUnit.MILLISECONDS),
                false);
        lock.unlock();
        Checks.equal("tryLock after unlock", foreign.tryLock(100, TimeUnit.MILLISECONDS), true);
        foreign.unlock();
        Checks.fails(
                "unlock without a hold",
                () -> {
                    lock.unlock();
                    return null;
                },
                "");

        // The first unlock of a registry tries the newest command of Redis and falls back to a
        // script.
        Lock unlockedOnly = other.obtain("two");
        unlockedOnly.lock();
        unlockedOnly.unlock();
        Checks.equal("unlock without a renewal before it", first.obtain("two").tryLock(), true);
        first.obtain("two").unlock();
    }

    private static void expiry(RedisLockRegistry brief, RedisLockRegistry other) throws Exception {
        Lock lock = brief.obtain("brief");
        lock.lock();
        Lock next = other.obtain("brief");
        Checks.equal("an expired lock can be acquired", next.tryLock(5, TimeUnit.SECONDS), true);
        Checks.fails(
                "renewLock after expiry",
                () -> {
                    brief.renewLock("brief");
                    return null;
                },
                "");
        Checks.fails(
                "unlock after expiry",
                () -> {
                    lock.unlock();
                    return null;
                },
                "released in the store");
        next.unlock();
    }

    private SpringLockRegistry() {}
}
