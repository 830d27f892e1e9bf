"""Named checks of one client program.

Each check prints one line, `ok NAME: VALUE` or `FAILED NAME: VALUE`. The program ends with
`done()`, which exits with 1 if a check failed.
"""

import os
import sys
import threading
import time

REDIS = os.environ.get("REDIS", "127.0.0.1:6379")
NODES = os.environ.get("REDIS_ALL", REDIS).split(",")
MEMCACHED = os.environ.get("MEMCACHED", "127.0.0.1:11211")
HTTP = os.environ.get("HTTP", "http://127.0.0.1:7400")
# `seqd` or `redis`: what serves the Redis port.
TARGET = os.environ.get("TARGET", "seqd")
# A prefix that no other run has used, because sequences cannot be emptied.
RUN = os.environ.get("RUN", "r" + os.urandom(4).hex())

failures = 0


def host_port(address):
    host, port = address.rsplit(":", 1)
    return host, int(port)


def check(name, passed, value=""):
    global failures
    failures += not passed
    text = " ".join(str(value).split())
    print(f"{'ok' if passed else 'FAILED'} {name}: {text[:200]}", flush=True)
    return passed


def equal(name, got, expected):
    return check(
        name, got == expected, repr(got) if got == expected else f"{got!r}, expected {expected!r}"
    )


def raises(name, kinds, call, text=""):
    """Checks that `call` raises one of `kinds`, with `text` in its message."""
    try:
        value = call()
    except kinds as error:
        return check(name, text in str(error), f"{type(error).__name__}: {error}")
    except Exception as error:
        return check(name, False, f"{type(error).__name__}: {error}")
    return check(name, False, f"returned {value!r}")


def until(condition, limit_s=10.0):
    """Waits until the condition holds, and returns whether it did before the limit."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


def contend(name, critical_section, contenders=6, turns=5):
    """Runs `critical_section(work)` in threads and checks that `work` never overlaps itself."""
    inside, overlaps, errors = [], [], []
    done = 0

    def work():
        nonlocal done
        inside.append(1)
        if len(inside) > 1:
            overlaps.append(1)
        seen = done
        time.sleep(0.01)
        done = seen + 1
        inside.pop()

    def contender():
        try:
            for _ in range(turns):
                critical_section(work)
        except Exception as error:
            errors.append(f"{type(error).__name__}: {error}")

    threads = [threading.Thread(target=contender) for _ in range(contenders)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    value = f"{contenders} threads, {done} of {contenders * turns} turns, {len(overlaps)} overlaps"
    value += f" {errors[0]}" if errors else ""
    return check(name, done == contenders * turns and not overlaps and not errors, value)


def done():
    sys.exit(1 if failures else 0)
