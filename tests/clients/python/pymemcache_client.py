"""pymemcache: an ID per key, many keys, version, stats; storage is refused."""

import threading

from checks import MEMCACHED, check, done, equal, host_port, raises
from pymemcache.client.base import Client
from pymemcache.exceptions import MemcacheError

client = Client(host_port(MEMCACHED), timeout=5)

ids = [int(client.get("id")) for _ in range(100)]
check("100 get rise", ids == sorted(set(ids)), ids[:2])
many = client.get_many([f"key-{i}" for i in range(1000)])
values = [int(value) for value in many.values()]
check("get_many of 1000 keys gives as many IDs", len(set(values)) == 1000, values[:2])
check("they follow the earlier ones", min(values) > ids[-1], (ids[-1], min(values)))
value, cas = client.gets("id")
check("gets", int(value) > max(values) and cas is not None, (value, cas))
check("gets_many", len(client.gets_many(["a", "b", "c"])) == 3, "3 keys")

check("version", len(client.version()) > 0, client.version())
stats = client.stats()
check("stats", {b"pid", b"uptime", b"version", b"cmd_get"} <= set(stats), stats.get(b"cmd_get"))

raises("set is refused", MemcacheError, lambda: client.set("id", "1", noreply=False))
raises("add is refused", MemcacheError, lambda: client.add("id", "12345", noreply=False))
raises("incr is refused", MemcacheError, lambda: client.incr("id", 1))
raises("delete is refused", MemcacheError, lambda: client.delete("id", noreply=False))
raises("flush_all is refused", MemcacheError, lambda: client.flush_all(noreply=False))
client.set("id", "1", noreply=True)
check("get after the refusals", int(client.get("id")) > max(values), "an ID")
raises("a key of 251 bytes", Exception, lambda: client.get("k" * 251))
check("a key of 250 bytes", int(client.get("k" * 250)) > 0, "an ID")

unique = set()


def caller():
    own = Client(host_port(MEMCACHED), timeout=5)
    unique.update(own.get("id") for _ in range(300))
    own.quit()


threads = [threading.Thread(target=caller) for _ in range(6)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
equal("6 threads, 1800 IDs, all different", len(unique), 1800)
done()
