"""The Lua scripts of Redisson's locks, read from the jars of several versions, on redis-server and
seqd in one run.

  redisson_scripts.py REDIS_HOST:PORT SEQD_HOST:PORT

Each script is called on a lock that is free, entered once or twice by the caller, and held by
another. Replies, entries and times left must be equal.
"""

import hashlib
import itertools
import pathlib
import re
import subprocess
import sys

from checks import RUN, check, done, host_port
from resp import Connection

JAVA = pathlib.Path(__file__).resolve().parent.parent / "java"
CLASSES = ["RedissonLock", "RedissonBaseLock", "RedissonSpinLock", "renewal.LockTask"]
OWNER, OTHER = "0b7e:1", "0b7e:2"
HELD_MS, MORE_MS, RECORD_MS = "60000", "90000", "30000"
STATES = {"free": [], "own": [OWNER], "entered twice": [OWNER, OWNER], "foreign": [OTHER]}


def scripts(jar):
    """The scripts of the classes that exist in this version, each once."""
    found = {}
    for name in CLASSES:
        command = ["javap", "-p", "-c", "-cp", str(jar), f"org.redisson.{name}"]
        output = subprocess.run(command, capture_output=True, text=True).stdout
        for text in re.findall(r"// String (.*redis\.call.*)", output):
            script = text.replace("\\'", "'").strip()
            found.setdefault(script, f"{jar.stem} {name}")
    return found


def call(script, key):
    """The words that follow EVALSHA and the name of the script, by what it does."""
    if "-1)" in script:
        value = int(re.search(r"'hexists', KEYS\[1\], ARGV\[(\d)\]", script)[1])
        is_recorded = "local val" in script
        record = [f"redisson_unlock_latch:{{{key}}}:17"] if is_recorded else []
        channel = [f"redisson_lock__channel:{{{key}}}"] if value == 3 else []
        before = ["0"] if value == 3 else []
        after = ["publish"] if value == 3 else []
        keys = [key, *channel, *record]
        return [str(len(keys)), *keys, *before, MORE_MS, OWNER, *after, RECORD_MS]
    if "'del', KEYS[1]) == 1" in script:
        return ["2", key, f"redisson_lock__channel:{{{key}}}", "0", "publish"]
    if "#KEYS" in script:
        return ["2", key, f"{key}:other", MORE_MS, OWNER, OWNER]
    return ["1", key, MORE_MS, OWNER]


def rounded(reply):
    """Milliseconds as whole seconds, because the servers are not called at the same time."""
    return re.sub(r":(\d{4,})", lambda number: f":{round(int(number[1]), -3)}", reply)


def case(server, enter, script, key, owners):
    """The replies of the script and of a repeated call, and what is left of the lock."""
    words = ["EVALSHA", hashlib.sha1(script.encode()).hexdigest(), *call(script, key)]
    look = [["HGET", key, OWNER], ["HEXISTS", key, OWNER], ["EXISTS", key], ["PTTL", key]]
    setup = [["EVALSHA", enter, "1", key, HELD_MS, owner] for owner in owners]
    replies = server.call(*setup, words, *look, words, *look)[len(setup) :]
    return [rounded(reply) for reply in replies]


def main():
    servers = [Connection(host_port(address)) for address in sys.argv[1:3]]
    jars = sorted([*JAVA.glob("lib/redisson-*.jar"), *JAVA.glob("older/redisson-*.jar")])
    check("versions", len(jars) > 4, [jar.stem for jar in jars])
    seen, calls = set(), itertools.count()
    for jar in jars:
        found = scripts(jar)
        enters = [script for script in found if "KEYS[1], ARGV[2], 1)" in script]
        check(f"{jar.stem}: scripts", len(found) >= 6 and enters, len(found))
        for script, name in found.items():
            sha = "$" + hashlib.sha1(script.encode()).hexdigest()
            loaded = [server.call(["SCRIPT", "LOAD", script])[0] for server in servers]
            check(f"{name}: SCRIPT LOAD", loaded == [sha, sha], loaded[1])
        enter = hashlib.sha1(enters[0].encode()).hexdigest()
        for script in set(found) - seen:
            seen.add(script)
            for state, owners in STATES.items():
                key = f"{RUN}:redisson:{next(calls)}"
                replies = [case(server, enter, script, key, owners) for server in servers]
                if replies[0] != replies[1]:
                    check(f"{found[script]} {state}", False, f"redis {replies[0]}, seqd {replies[1]}")
    check("called", True, f"{len(seen)} scripts in {len(STATES)} states")
    done()


main()
