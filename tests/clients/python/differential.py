"""Every supported command against a real redis-server and seqd in one run, 200 inputs each.

  differential.py REDIS_HOST:PORT SEQD_HOST:PORT [SEED [COMMAND..]]

A difference must have a row with a reason in `differences.tsv`. Errors are compared by their first
word.
"""

import collections
import random
import re
import sys

from cases import ARGUMENTS, cases
from checks import RUN, check, done, host_port
from differences import table
from resp import Connection

COUNT = 200
# Replies whose values belong to one server: only the type is compared.
OWN_VALUES = {"INFO", "TIME", "COMMAND", "CLIENT ID", "DBSIZE", "HELLO"}
TIME_LEFT = {"TTL": 3, "PTTL": 3000}
# A fresh connection for each input, because these change it.
CONNECTION_COMMANDS = {"HELLO", "CLIENT", "AUTH", "SELECT", "MULTI"}


def same(case, redis, seqd):
    if redis == seqd:
        return True
    if redis.startswith("-") and seqd.startswith("-"):
        return redis.split(" ")[0] == seqd.split(" ")[0]
    command = case.words[0]
    if OWN_VALUES & {command, " ".join(case.words[:2])}:
        return redis[0] == seqd[0]
    return close(redis, seqd, TIME_LEFT.get(command, 3000 if command in ("EVAL", "EVALSHA") else 0))


def close(redis, seqd, tolerance):
    numbers = [re.fullmatch(r":(\d+)", reply) for reply in (redis, seqd)]
    return all(numbers) and abs(int(numbers[0][1]) - int(numbers[1][1])) <= tolerance


def run(connection, case):
    """Returns the reply, and the value and the time left afterwards."""
    setup = case.setup()
    replies = connection.call(*setup, case.words, *case.look)
    return replies[len(setup)], replies[len(setup) + 1 :]


def main():
    redis_address, seqd_address = map(host_port, sys.argv[1:3])
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.randrange(2**32)
    print(f"# replay with seed {seed}")
    rows = table()
    used = collections.Counter()
    for command in sys.argv[4:] or ARGUMENTS:
        unexplained, explained = [], 0
        redis, seqd = Connection(redis_address), Connection(seqd_address)
        for case in cases(command, seed, COUNT, RUN):
            if command in CONNECTION_COMMANDS:
                redis.close(), seqd.close()
                redis, seqd = Connection(redis_address), Connection(seqd_address)
            redis_reply, redis_look = run(redis, case)
            seqd_reply, seqd_look = run(seqd, case)
            differs = not same(case, redis_reply, seqd_reply)
            if not differs and any(
                a != b and not close(a, b, 3000) for a, b in zip(redis_look, seqd_look, strict=True)
            ):
                differs = True
                redis_reply += " then " + " ".join(redis_look)
                seqd_reply += " then " + " ".join(seqd_look)
            if differs:
                row = next(
                    (row for row in rows if row.explains(case.text, redis_reply, seqd_reply)), None
                )
                if row:
                    explained += 1
                    used[row.reason] += 1
                else:
                    unexplained.append(f"{case.text} -> redis {redis_reply!r}, seqd {seqd_reply!r}")
        redis.close(), seqd.close()
        value = (
            f"{COUNT} inputs, {explained} differ for a reason, {len(unexplained)} differ without"
        )
        check(command, not unexplained, value)
        for line in unexplained[:8]:
            print(f"  {line}")
    for reason, count in used.most_common():
        print(f"# {count} times: {reason}")
    done()


main()
