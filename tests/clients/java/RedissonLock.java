import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;

/** Redisson's RLock and spin lock: re-entry, renewal, waiting, expiry, contenders. */
final class RedissonLock {
    private static final long WATCHDOG_MS = 1500;

    public static void main(String[] args) {
        Checks.program(RedissonLock::run);
    }

    private static void run() throws Exception {
        List<RedissonClient> clients = new ArrayList<>();
        for (String node : Checks.NODES) {
            clients.add(client(node));
        }
        RedissonClient first = clients.get(0);
        RedissonClient other = client(Checks.NODES.get(Checks.NODES.size() - 1));
        clients.add(other);
        reentry(first.getLock(name("lock")), other.getLock(name("lock")));
        reentry(first.getSpinLock(name("spin")), other.getSpinLock(name("spin")));
        renewal(first.getLock(name("kept")), other.getLock(name("kept")));
        waiting(first.getLock(name("waited")), other.getLock(name("waited")));
        expiry(first.getLock(name("brief")), other.getLock(name("brief")));
        breaking(first.getLock(name("broken")), other.getLock(name("broken")));
        for (boolean spins : List.of(false, true)) {
            String contended = name("contended:" + spins);
            Checks.contend(
                    "contenders exclude each other" + (spins ? ", spinning" : ""),
                    (contender, work) -> {
                        RedissonClient client = clients.get(contender % clients.size());
                        RLock lock =
                                spins ? client.getSpinLock(contended) : client.getLock(contended);
                        lock.lock();
                        work.run();
                        lock.unlock();
                    });
        }
        clients.forEach(RedissonClient::shutdown);
    }

    private static RedissonClient client(String node) {
        Config config = new Config();
        config.setLockWatchdogTimeout(WATCHDOG_MS);
        config.useSingleServer().setAddress("redis://" + node);
        return Redisson.create(config);
    }

    private static String name(String what) {
        return Checks.RUN + ":redisson:" + what;
    }

    private static void reentry(RLock lock, RLock foreign) throws Exception {
        String kind = lock.getClass().getSimpleName() + ": ";
        lock.lock(10, TimeUnit.SECONDS);
        Checks.equal(kind + "depth", lock.getHoldCount(), 1);
        Checks.equal(kind + "lock again with another time", lock.tryLock(0, 20, TimeUnit.SECONDS), true);
        Checks.equal(kind + "depth", lock.getHoldCount(), 2);
        long left = lock.remainTimeToLive();
        Checks.check(kind + "time left", left > 15_000 && left <= 20_000, left);
        Checks.equal(kind + "tryLock by another", foreign.tryLock(), false);
        Checks.equal(
                kind + "locked, held here, held there",
                List.of(
                        lock.isLocked(),
                        lock.isHeldByCurrentThread(),
                        foreign.isHeldByCurrentThread()),
                List.of(true, true, false));
        lock.unlock();
        Checks.equal(kind + "depth after the inner unlock", lock.getHoldCount(), 1);
        Checks.equal(kind + "tryLock by another", foreign.tryLock(), false);
        lock.unlock();
        Checks.equal(kind + "free after the outer unlock", lock.isLocked(), false);
        Checks.fails(
                kind + "unlock without a hold",
                () -> {
                    lock.unlock();
                    return null;
                },
                "not locked by current thread");
        Checks.equal(kind + "tryLock by another", foreign.tryLock(), true);
        Checks.fails(
                kind + "unlock of another's hold",
                () -> {
                    lock.unlock();
                    return null;
                },
                "not locked by current thread");
        foreign.unlock();
    }

    private static void renewal(RLock lock, RLock foreign) throws Exception {
        lock.lock();
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(2 * WATCHDOG_MS);
        boolean held = true;
        while (System.nanoTime() < end) {
            held &= lock.isHeldByCurrentThread() && !foreign.tryLock();
        }
        Checks.equal("the watchdog renews the lock for twice its lifetime", held, true);
        lock.unlock();
    }

    private static void waiting(RLock lock, RLock foreign) throws Exception {
        lock.lock(30, TimeUnit.SECONDS);
        CountDownLatch waits = new CountDownLatch(1);
        AtomicBoolean got = new AtomicBoolean();
        AtomicLong gotAt = new AtomicLong();
        Thread thread =
                new Thread(
                        () -> {
                            try {
                                waits.countDown();
                                got.set(foreign.tryLock(20, 10, TimeUnit.SECONDS));
                                gotAt.set(System.nanoTime());
                                foreign.unlock();
                            } catch (Exception error) {
                                got.set(false);
                            }
                        });
        thread.start();
        waits.await();
        // Long enough for its subscription; a lock that is free earlier is acquired as well.
        thread.join(500);
        Checks.equal("a waiter waits", thread.isAlive(), true);
        long freeAt = System.nanoTime();
        lock.unlock();
        thread.join();
        long late = (gotAt.get() - freeAt) / 1_000_000;
        Checks.check("it gets the lock when it is free", got.get() && late < 5000, late + " ms");
    }

    private static void expiry(RLock lock, RLock foreign) throws Exception {
        lock.lock(300, TimeUnit.MILLISECONDS);
        Checks.equal(
                "an expired lock can be acquired", foreign.tryLock(5, 10, TimeUnit.SECONDS), true);
        Checks.equal("the first holder has lost it", lock.isHeldByCurrentThread(), false);
        foreign.unlock();
    }

    private static void breaking(RLock lock, RLock foreign) throws Exception {
        Checks.equal("forceUnlock of a free lock", foreign.forceUnlock(), false);
        lock.lock(10, TimeUnit.SECONDS);
        Checks.equal("forceUnlock", foreign.forceUnlock(), true);
        Checks.equal("it is free", lock.isLocked(), false);
    }

    private RedissonLock() {}
}
