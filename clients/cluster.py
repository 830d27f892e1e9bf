#!/usr/bin/env python3
"""A cluster of three nodes with TLS and access tokens, for tests that control it through a pipe.

    cluster.py SEQD [WINDOW]    starts it with a window such as 30s; the first line of stdout describes it as JSON

Commands on stdin, each answered by one line of JSON: `leader`, `kill NAME`, `start NAME`, `stop NAME` and `continue
NAME` (SIGSTOP, SIGCONT). The nodes and their folder are removed at the end of stdin.
"""

import json
import pathlib
import signal
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from driver.cluster import NAMES, READY_S, Cluster


def describe(cluster):
    environment = cluster.environment()
    return {"endpoints": environment["SEQD_ENDPOINTS"], "token": cluster.token, "ca": environment["SEQD_CACERT"],
            "cert": environment["SEQD_CERT"], "key": environment["SEQD_KEY"],
            "nodes": {name: f"https://127.0.0.1:{cluster.http[name]}" for name in NAMES}}


def leader(cluster):
    """The leader that a running node names, once it is one that runs."""
    until = time.monotonic() + READY_S
    while time.monotonic() < until:
        for name, node in cluster.nodes.items():
            if node.poll() is not None:
                continue
            try:
                named = json.loads(cluster.get(name, "/v1/cluster"))["leader"]
            except OSError:
                continue
            if named and cluster.nodes[named].poll() is None:
                return named
        time.sleep(0.1)
    raise SystemExit(f"no leader after {READY_S} s")


def obey(cluster, words):
    if words[0] == "leader":
        return {"leader": leader(cluster)}
    node = cluster.nodes[words[1]]
    if words[0] == "kill":
        node.kill()
        node.wait()
    elif words[0] == "start":
        cluster.revive()
    else:
        node.send_signal({"stop": signal.SIGSTOP, "continue": signal.SIGCONT}[words[0]])
    return {"done": words[0]}


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with Cluster(sys.argv[1], *sys.argv[2:]) as cluster:
        print(json.dumps(describe(cluster)), flush=True)
        for line in sys.stdin:
            print(json.dumps(obey(cluster, line.split())), flush=True)


main()
