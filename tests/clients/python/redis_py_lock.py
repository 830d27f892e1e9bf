"""redis-py's Lock: release, extend, reacquire, expiry, and six contenders."""

import redis
from checks import (
    NODES,
    RUN,
    TARGET,
    check,
    contend,
    done,
    equal,
    host_port,
    raises,
    until,
)
from redis.exceptions import LockError, LockNotOwnedError, ResponseError

clients = [redis.Redis(host=host, port=port) for host, port in map(host_port, NODES)]
client = clients[0]
name = f"{RUN}:redis-py-lock"

lock = client.lock(name, timeout=5)
other = clients[-1].lock(name, timeout=5)
equal("acquire", lock.acquire(), True)
equal("a second lock waits in vain", other.acquire(blocking_timeout=0.3), False)
equal("locked and owned", (lock.locked(), lock.owned(), other.owned()), (True, True, False))
equal("the value is the token", client.get(name), lock.local.token)

equal("extend adds to the time", lock.extend(10), True)
check("time left after extend", 13_000 < client.pttl(name) <= 15_000, client.pttl(name))
equal("extend with replace_ttl", lock.extend(20, replace_ttl=True), True)
check("time left after replace_ttl", 18_000 < client.pttl(name) <= 20_000, client.pttl(name))
equal("reacquire", lock.reacquire(), True)
# Redis sets the time back to 5 s, seqd never shortens a hold.
left = client.pttl(name)
check("time left after reacquire", 3000 < left <= (5000 if TARGET == "redis" else 20_000), left)

other.local.token = b"not-the-token"
raises("release by another", LockNotOwnedError, other.release)
other.local.token = b"not-the-token"
raises("extend by another", LockNotOwnedError, lambda: other.extend(1))
raises("reacquire by another", LockNotOwnedError, other.reacquire)
equal("the lock is still held", lock.owned(), True)
lock.release()
equal("released", client.get(name), None)
raises("release without a hold", LockError, lock.release)

short = client.lock(name, timeout=0.5)
short.acquire()
equal("an expired lock can be acquired", until(lambda: other.acquire(blocking=False), 5), True)
raises("extend after expiry", LockNotOwnedError, lambda: short.extend(1))
raises("release after expiry", LockNotOwnedError, short.release)
equal("the next owner still holds it", other.owned(), True)
other.release()

if TARGET == "seqd":
    raises("a lock without a timeout is refused", ResponseError, client.lock(name).acquire, "PX")


contenders = iter(range(1000))


def critical_section(work):
    """Holds the lock through a node that differs from call to call."""
    with clients[next(contenders) % len(clients)].lock(name, timeout=10, sleep=0.02):
        work()


contend("contenders exclude each other", critical_section)
done()
