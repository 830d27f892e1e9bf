#!/usr/bin/env python3
"""Prints rates of one thread as ratios to a bare loop that increments an integer. `clients/run --bench python`"""

import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "src"))

import seqd

SECONDS = 1.0


def rate(call, each=1):
    """Calls per second, in rounds between two readings of the clock."""
    done, began = 0, time.perf_counter()
    while time.perf_counter() - began < SECONDS:
        for _ in range(100):
            call()
        done += 100 * each
    return done / (time.perf_counter() - began)


class Counter:
    value = 0

    def add(self):
        self.value += 1


def main():
    client, name = seqd.Client(), f"bench-{os.getpid()}"
    client.create(name, mode="segment")
    bare = rate(Counter().add)
    with seqd.IdGenerator(client, name) as generator, client.ranges(name, 1_000_000) as ranges:
        generator.ready()
        ranges.next()
        rows = [
            ("a bare loop", bare),
            ("IdGenerator.id", rate(generator.id)),
            ("IdGenerator.ids(1000)", rate(lambda: generator.ids(1000), 1000)),
            ("Ranges.next", rate(ranges.next)),
            ("Client.next", rate(lambda: client.next(name))),
            ("Client.id", rate(client.id)),
        ]
    client.delete_sequence(name)
    for label, per_second in rows:
        print(f"{label:24}{per_second:12.0f}/s  {per_second / bare:8.5f}")


main()
