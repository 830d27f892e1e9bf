"""Commands that seqd answers otherwise than Redis, from `differences.tsv`."""

import csv
import pathlib
import re

TABLE = pathlib.Path(__file__).resolve().parent.parent / "differences.tsv"


class Difference:
    def __init__(self, row):
        self.example, self.reason = row["example"], row["reason"]
        self.command, self.redis, self.seqd = (
            re.compile(row[key]) for key in ("command", "redis", "seqd")
        )

    def explains(self, command, redis_reply, seqd_reply):
        return (
            self.command.fullmatch(command)
            and self.redis.fullmatch(redis_reply)
            and self.seqd.fullmatch(seqd_reply)
        )


def table():
    with open(TABLE, newline="") as file:
        return [
            Difference(row) for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        ]


def examples(counter, unused):
    """The command lines of the table, on a counter that exists and on a name that does not."""
    for difference in table():
        if difference.example != "-":
            words = difference.example.replace("COUNTER", counter).replace("UNUSED", unused)
            yield words.split(" "), difference
