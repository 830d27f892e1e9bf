"""redis-py: counters, nulls, pipelines and errors, over RESP3 and RESP2."""

import threading

import redis
from checks import NODES, REDIS, RUN, TARGET, check, done, equal, host_port, raises
from differences import examples

host, port = host_port(REDIS)


def counters(client, name):
    equal("incr creates the counter", client.incr(name), 1)
    equal("incr rises", [client.incr(name) for _ in range(5)], [2, 3, 4, 5, 6])
    equal("incrby returns the last of 100 values", client.incrby(name, 100), 106)
    equal("get returns the last value", client.get(name), b"106")
    equal("set moves the counter forward", client.set(name, 5000), True)
    equal("incr continues after set", client.incr(name), 5001)
    equal("ttl of a counter", client.ttl(name), -1)
    equal("exists of a counter", client.exists(name), 1)
    equal("type of a counter", client.type(name), b"string")


def nulls(client, name):
    equal("get of an unknown name", client.get(name + ":unknown"), None)
    equal(
        "ttl and pttl of an unknown name",
        (client.ttl(name + ":u"), client.pttl(name + ":u")),
        (-2, -2),
    )
    equal("set nx px acquires", client.set(name, "owner-1", nx=True, px=5000), True)
    equal("set nx px of a held lock is null", client.set(name, "owner-2", nx=True, px=5000), None)
    equal("get of a lock is its value", client.get(name), b"owner-1")
    check("pttl of a lock", 3000 < client.pttl(name) <= 5000, client.pttl(name))
    equal("del releases", (client.delete(name), client.delete(name)), (1, 0))
    equal("set nx ex acquires again", client.set(name, "owner-2", nx=True, ex=5), True)
    equal("unlink releases", client.unlink(name), 1)


def pipelines(client, name):
    pipe = client.pipeline(transaction=False)
    for _ in range(200):
        pipe.incr(name)
    equal("200 pipelined incr in order", pipe.execute(), list(range(1, 201)))
    pipe.get(name + ":unknown").incr(name).execute_command("NOSUCH").incr(name)
    replies = pipe.execute(raise_on_error=False)
    equal("replies around an error", (replies[0], replies[1], replies[3]), (None, 201, 202))
    check("the error between them", "unknown command" in str(replies[2]), replies[2])


def transactions(client, name):
    """redis-py sends more than 6000 bytes in pieces."""
    client.set(name + ":lock", "me", nx=True, px=60000)
    for _ in range(10):
        pipe = client.pipeline()
        for _ in range(400):
            pipe.incr(name)
        raises(
            "a long transaction",
            redis.ResponseError,
            pipe.delete(name + ":lock").execute,
            "no transactions",
        )
    equal("the counter is unchanged", client.get(name), None)
    equal("the lock is held", client.delete(name + ":lock"), 1)


def errors(client, name):
    raises(
        "set of a word",
        redis.ResponseError,
        lambda: client.incr(name) and client.incrby(name, "abc"),
    )
    raises(
        "an unknown command",
        redis.ResponseError,
        lambda: client.execute_command("NOSUCH"),
        "unknown command",
    )
    raises(
        "too few arguments",
        redis.ResponseError,
        lambda: client.execute_command("INCR"),
        "wrong number of arguments",
    )
    if TARGET == "seqd":
        for words, difference in examples(name, name + ":unused"):
            try:
                reply = repr(client.execute_command(*words))
            except redis.ResponseError as error:
                reply = f"-ERR {error}" if type(error) is redis.ResponseError else f"-{error}"
            check(f"differs: {' '.join(words)}", difference.seqd.fullmatch(reply), reply)
        equal("the counter is as before", client.get(name), b"1")


def callers(name):
    """Several threads on several nodes share a counter."""
    values = []

    def caller(number):
        node_host, node_port = host_port(NODES[number % len(NODES)])
        own = redis.Redis(host=node_host, port=node_port)
        got = [own.incr(name) for _ in range(50)]
        values.append(got)
        own.close()

    threads = [threading.Thread(target=caller, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rising = all(got == sorted(set(got)) for got in values)
    everything = sorted(value for got in values for value in got)
    complete = everything == list(range(1, 401))
    check("8 threads, 400 incr: no value twice, none missing", rising and complete, len(everything))


def seqd_commands(client, name):
    ids = client.execute_command("SEQD.ID", 10)
    check(
        "SEQD.ID returns rising IDs",
        len({*ids}) == 10 and [int(i) for i in ids] == sorted(map(int, ids)),
        ids[:2],
    )
    ranges = client.execute_command("SEQD.NEXT", name, 50)
    check(
        "SEQD.NEXT returns ranges",
        sum(int(last) - int(first) + 1 for first, last in ranges) == 50,
        ranges,
    )
    client.set(name + ":lock", "me", nx=True, px=5000)
    first = int(client.execute_command("SEQD.TOKEN", name + ":lock", "me"))
    client.delete(name + ":lock")
    client.set(name + ":lock", "me", nx=True, px=5000)
    second = int(client.execute_command("SEQD.TOKEN", name + ":lock", "me"))
    check("SEQD.TOKEN rises", 0 < first < second, (first, second))
    client.delete(name + ":lock")


for protocol in (3, 2):
    client = redis.Redis(host=host, port=port, protocol=protocol)
    prefix = f"{RUN}:redis-py:{protocol}"
    print(f"# protocol {protocol}")
    equal("ping", client.ping(), True)
    equal("echo", client.echo("hello"), b"hello")
    equal("role in info", client.info()["role"], "master")
    counters(client, f"{prefix}:counter")
    nulls(client, f"{prefix}:lock")
    pipelines(client, f"{prefix}:pipeline")
    errors(client, f"{prefix}:errors")
    callers(f"{prefix}:callers")
    if TARGET == "seqd":
        seqd_commands(client, f"{prefix}:counter")
        transactions(client, f"{prefix}:transaction")
    client.close()
done()
