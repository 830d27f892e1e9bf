"""redlock-py with one server: the cluster is one lock service, not several."""

from checks import REDIS, RUN, check, contend, done, equal, host_port, until
from redlock import Redlock

host, port = host_port(REDIS)
name = f"{RUN}:redlock-py"
first = Redlock([{"host": host, "port": port}], retry_count=1)
second = Redlock([{"host": host, "port": port}], retry_count=1)

held = first.lock(name, 5000)
check("lock", held and 0 < held.validity <= 5000, held)
equal("a second lock is refused", second.lock(name, 5000), False)
second.unlock(held._replace(key=b"not-the-value"))
equal("unlock with another value has no effect", second.lock(name, 5000), False)
second.unlock(held)
again = second.lock(name, 500)
check("unlock with the value, through another client", bool(again), again)
equal("the lock expires", until(lambda: first.lock(name, 200), 5), True)

waiting = Redlock([{"host": host, "port": port}], retry_count=500, retry_delay=0.02)


def critical_section(work):
    held = waiting.lock(name, 10_000)
    work()
    waiting.unlock(held)


contend("contenders exclude each other", critical_section)
done()
