"""pottery's Redlock: acquire, extend, time left, release, contenders."""

import pottery
import redis
from checks import REDIS, RUN, check, contend, done, equal, host_port, raises, until

host, port = host_port(REDIS)
masters = {redis.Redis(host=host, port=port)}


def redlock(auto_release_time_s=5.0):
    return pottery.Redlock(
        key=f"{RUN}:pottery", masters=masters, auto_release_time=auto_release_time_s
    )


first, second = redlock(), redlock()
equal("acquire", first.acquire(), True)
equal("a second lock is refused", second.acquire(blocking=False), False)
check("time left", 3 < first.locked() <= 5, first.locked())
equal("extend", first.extend(), None)
raises("release by another", pottery.ReleaseUnlockedLock, second.release)
first.release()
equal("released", first.locked(), 0)
raises("extend without a hold", pottery.ExtendUnlockedLock, first.extend)

short = redlock(0.5)
short.acquire()
equal("the lock expires", until(lambda: not short.locked(), 5), True)
# pottery subtracts a margin for clocks, so that the lock expires a little later on the server.
equal("an expired lock can be acquired", until(lambda: second.acquire(blocking=False), 5), True)
second.release()


def critical_section(work):
    with redlock(10):
        work()


contend("contenders exclude each other", critical_section, turns=3)
done()
