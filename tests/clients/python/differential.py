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
CONNECTION_COMMANDS = {"HELLO", "CLIENT", "AUTH", "SELECT", "MULTI", "SUBSCRIBE", "UNSUBSCRIBE"}


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
    # seqd refuses what follows it.
    look = [] if case.words[0] == "MULTI" else case.look
    replies = connection.call(*setup, case.words, *look)
    return replies[len(setup)], replies[len(setup) + 1 :]


def difference(case, redis, seqd):
    """Both replies if they differ, with the looks at the name if only those differ."""
    redis_reply, redis_look = run(redis, case)
    seqd_reply, seqd_look = run(seqd, case)
    if not same(case, redis_reply, seqd_reply):
        return redis_reply, seqd_reply
    looks = zip(redis_look, seqd_look, strict=True)
    if all(a == b or close(a, b, 3000) for a, b in looks):
        return None
    return tuple(
        f"{reply} then {' '.join(look)}"
        for reply, look in ((redis_reply, redis_look), (seqd_reply, seqd_look))
    )


class Connections:
    """A connection to each server in each version of the protocol."""

    def __init__(self, addresses):
        self.addresses, self.open = addresses, {}

    def pair(self, case, number):
        protocol = 2 + number % 2
        if case.words[0] in CONNECTION_COMMANDS:
            self.close()
        if protocol not in self.open:
            self.open[protocol] = [Connection(address, protocol) for address in self.addresses]
        return self.open[protocol]

    def close(self):
        for pair in self.open.values():
            for connection in pair:
                connection.close()
        self.open = {}


def compare(command, seed, connections, rows):
    """Runs the inputs of a command, and returns the differences by reason and those without."""
    explained, unexplained = collections.Counter(), []
    for number, case in enumerate(cases(command, seed, COUNT, RUN)):
        replies = difference(case, *connections.pair(case, number))
        if not replies:
            continue
        row = next((row for row in rows if row.explains(case.text, *replies)), None)
        if row:
            explained[row.reason] += 1
        else:
            unexplained.append(f"{case.text} -> redis {replies[0]!r}, seqd {replies[1]!r}")
    if command in CONNECTION_COMMANDS:
        connections.close()
    return explained, unexplained


def main():
    connections = Connections([host_port(address) for address in sys.argv[1:3]])
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.randrange(2**32)
    print(f"# replay with seed {seed}")
    rows, reasons = table(), collections.Counter()
    for command in sys.argv[4:] or ARGUMENTS:
        explained, unexplained = compare(command, seed, connections, rows)
        reasons += explained
        counts = f"{explained.total()} differ for a reason, {len(unexplained)} without"
        check(command, not unexplained, f"{COUNT} inputs, {counts}")
        for line in unexplained[:8]:
            print(f"  {line}")
    connections.close()
    for reason, count in reasons.most_common():
        print(f"# {count} times: {reason}")
    done()


main()
