"""Twelve contenders with redis-py's Lock while the leader is killed with `kill -9`, and started
again.

  contention.py SEQD_BINARY [SECONDS [KILLS]]

Three nodes with TLS and tokens run in a temporary folder. A holder takes a local file lock, which
is free if no other holder is inside, and writes its fencing token into a ledger. Tokens in the
order of the ledger must rise. The contenders run until the last node has been started again;
SECONDS is the time of the run without the time of the starts.
"""

import fcntl
import multiprocessing
import pathlib
import random
import signal
import sys
import tempfile
import time

import redis
from checks import check, done, until
from cluster import Cluster

CONTENDERS = 12
HOLD_S = 5.0
NAME = "contended"


def access(cluster):
    """The options of a client."""
    tls = cluster.folder / "tls"
    return {
        "host": "127.0.0.1",
        "password": cluster.token,
        "ssl": True,
        "ssl_ca_certs": str(tls / "ca.crt"),
        "ssl_certfile": str(tls / "app.crt"),
        "ssl_keyfile": str(tls / "app.key"),
        "socket_timeout": 4,
        "socket_connect_timeout": 1,
    }


def contender(number, ports, options, folder, end):
    """Acquires, checks, works and releases until `end` is set; after an error it tries the next
    node."""
    clients = [redis.Redis(port=port, **options) for port in ports]
    ledger, inside = folder / "ledger", open(folder / "inside", "w")
    turn = number
    while not end.is_set():
        client = clients[turn % len(clients)]
        turn += 1
        began = time.monotonic()
        lock = client.lock(NAME, timeout=HOLD_S, sleep=0.02, blocking_timeout=2)
        try:
            if not lock.acquire():
                continue
            token = int(client.execute_command("SEQD.TOKEN", NAME, lock.local.token))
        except redis.RedisError as error:
            note(folder, f"acquire {kind(error)}")
            time.sleep(0.05)
            continue
        # The hold begins at the latest when the request was sent, so this much of it is certain.
        if time.monotonic() - began > HOLD_S / 2:
            continue
        try:
            fcntl.flock(inside, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            note(folder, f"OVERLAP token {token}")
            continue
        with open(ledger, "a") as file:
            file.write(f"{token} {number} {time.time():.3f}\n")
        time.sleep(random.uniform(0.005, 0.03))
        fcntl.flock(inside, fcntl.LOCK_UN)
        try:
            lock.release()
        except redis.RedisError as error:
            note(folder, f"release {kind(error)}")


def kind(error):
    """The type of an error, and the code in a reply of seqd, without addresses and names."""
    is_reply = isinstance(error, redis.ResponseError)
    return f"{type(error).__name__} {str(error).split(':')[0] if is_reply else ''}".rstrip()


def note(folder, text):
    with open(folder / "notes", "a") as file:
        file.write(text + "\n")


def turns(folder):
    ledger = folder / "ledger"
    return ledger.read_text().splitlines() if ledger.exists() else []


def main():
    binary = sys.argv[1]
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 30
    kills = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    # Without this, a terminated run would leave its nodes behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with (
        tempfile.TemporaryDirectory(prefix="seqd-contention.") as scratch,
        Cluster(binary, more=["redis"]) as cluster,
    ):
        folder, end = pathlib.Path(scratch), multiprocessing.Event()
        ports, options = [node["redis"] for node in cluster.ports.values()], access(cluster)
        processes = [
            multiprocessing.Process(target=contender, args=(number, ports, options, folder, end))
            for number in range(CONTENDERS)
        ]
        for process in processes:
            process.start()
        gaps = []
        for _ in range(kills):
            time.sleep(seconds / kills / 2)
            leader, before = cluster.leader(), len(turns(folder))
            cluster.kill(leader)
            began = time.monotonic()
            if check(
                f"turns continue without {leader}",
                until(lambda before=before: len(turns(folder)) > before, 20),
            ):
                gaps.append(round(time.monotonic() - began, 2))
            time.sleep(seconds / kills / 2)
            cluster.start()
        end.set()
        for process in processes:
            process.join()
        report(folder, gaps)
    done()


def report(folder, gaps):
    notes = (folder / "notes").read_text().splitlines() if (folder / "notes").exists() else []
    entries = [line.split() for line in turns(folder)]
    tokens = [int(entry[0]) for entry in entries]
    overlaps = [line for line in notes if line.startswith("OVERLAP")]
    check(
        "exclusion held",
        not overlaps,
        f"{len(entries)} turns, {len(overlaps)} overlaps {overlaps[:2]}",
    )
    falls = [pair for pair in zip(tokens, tokens[1:], strict=False) if pair[0] >= pair[1]]
    check(
        "fencing tokens rise",
        tokens and not falls,
        f"{tokens[0] if tokens else ''}..{max(tokens, default=0)} {falls[:2]}",
    )
    served = {entry[1] for entry in entries}
    check("every contender had a turn", len(served) == CONTENDERS, f"{len(served)} of {CONTENDERS}")
    errors = {line: notes.count(line) for line in notes if not line.startswith("OVERLAP")}
    print(f"# seconds until the next turn after each kill: {gaps}; contenders met errors: {errors}")


if __name__ == "__main__":
    main()
