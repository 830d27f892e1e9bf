"""The Lua scripts of lock libraries, read from their packages, on redis-server and seqd in one run.

  lock_scripts.py REDIS_HOST:PORT SEQD_HOST:PORT

Each script is loaded, and called on a lock that is free, held by the caller, and held by another.
Replies, values and times left must be equal, except that a hold is never shortened.
"""

import hashlib
import itertools
import pathlib
import re
import subprocess
import sys

import pottery.redlock
import redis.lock
import redlock
from checks import RUN, check, done, host_port
from differences import table
from resp import Connection

SCRATCH = pathlib.Path(__file__).resolve().parent.parent
VALUE, TOKEN_LENGTH = "token-of-the-caller-22" + "metadata", "22"
LESS_MS, MORE_MS = "20000", "90000"
HELD_MS = "60000"
RELEASE, EXTEND = [[VALUE]], [[VALUE, LESS_MS], [VALUE, MORE_MS]]

# What follows the key, by the name of the script.
ARGUMENTS = {
    "redis-py RELEASE": RELEASE,
    "redis-py EXTEND": [[VALUE, "30000", "0"], [VALUE, MORE_MS, "1"], [VALUE, LESS_MS, "1"]],
    "redis-py REACQUIRE": EXTEND,
    "redlock-py unlock": RELEASE,
    "pottery acquired": RELEASE,
    "pottery extend": EXTEND,
    "pottery release": RELEASE,
    "redsync delete": RELEASE,
    "redsync touch": EXTEND,
    "redsync touchWithSetNX": EXTEND,
    "redislock luaRefresh": EXTEND,
    "redislock luaRelease": RELEASE,
    "redislock luaPTTL": RELEASE,
    "redislock luaObtain": [
        [VALUE, TOKEN_LENGTH, LESS_MS],
        [VALUE, TOKEN_LENGTH, MORE_MS],
        [VALUE[:22] + "other", TOKEN_LENGTH, MORE_MS],
    ],
    "redlock4 lock": EXTEND,
    "redlock4 unlock": RELEASE,
    "redlock4 extend": EXTEND,
    "redlock5 ACQUIRE": EXTEND,
    "redlock5 EXTEND": EXTEND,
    "redlock5 RELEASE": RELEASE,
    "spring OBTAIN_LOCK": EXTEND,
    "spring RENEW": EXTEND,
    "spring UNLINK_UNLOCK": RELEASE,
}


def read(pattern):
    """The text of the only file in the scratch folder with this path."""
    return next(SCRATCH.glob(pattern)).read_text()


def python_scripts():
    for name in ("RELEASE", "EXTEND", "REACQUIRE"):
        yield f"redis-py {name}", getattr(redis.lock.Lock, f"LUA_{name}_SCRIPT")
    yield "redlock-py unlock", redlock.Redlock.unlock_script
    text = pathlib.Path(pottery.redlock.__file__).read_text()
    for name, script in re.findall(
        r"_(\w+)_script = master\.register_script\('''(.*?)'''\)", text, re.S
    ):
        yield f"pottery {name}", script


def go_scripts():
    text = read("go-modules/github.com/go-redsync/redsync/v4@*/scripts.go")
    for name, script in re.findall(r"var (\w+)Script = redis\.NewScript\(1, `(.*?)`", text, re.S):
        yield f"redsync {name}", script
    text = read("go-modules/github.com/bsm/redislock@*/redislock.go")
    for name, script in re.findall(r"(lua\w+)\s*= redis\.NewScript\(`(.*?)`\)", text, re.S):
        yield f"redislock {name}", script


def node_scripts():
    for name, script in re.findall(
        r"const (\w+)Script = `(.*?)`", read("node/node_modules/redlock4/redlock.js"), re.S
    ):
        yield f"redlock4 {name}", script
    text = read("node/node_modules/redlock5/dist/cjs/index.js")
    for name, script in re.findall(r"const (\w+)_SCRIPT = `(.*?)`", text, re.S):
        yield f"redlock5 {name}", script


def java_scripts():
    jar = next(SCRATCH.glob("java/lib/spring-integration-redis-*.jar"))
    registry = "org.springframework.integration.redis.util.RedisLockRegistry$"
    for inner in ("RedisLock", "RedisSpinLock"):
        command = ["javap", "-p", "-constants", "-cp", str(jar), registry + inner]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        for name, script in re.findall(r'String (\w+)_SCRIPT = "(.*)";', output):
            yield f"spring {name}", script.encode().decode("unicode_escape")


class Server:
    def __init__(self, address):
        self.connection = Connection(host_port(address))

    def load(self, script):
        return self.connection.call(["SCRIPT", "LOAD", script])[0]

    def case(self, script, name, holder, arguments):
        """The reply of the script, then the value of the lock and its time left."""
        setup = [["SET", name, holder, "NX", "PX", HELD_MS]] if holder else []
        sha = hashlib.sha1(script.encode()).hexdigest()
        words = ["EVALSHA", sha, "1", name, *arguments]
        return self.connection.call(*setup, words, ["GET", name], ["PTTL", name])[len(setup) :]


def rounded(reply):
    """Milliseconds as whole seconds, because the servers are not called at the same time."""
    number = re.fullmatch(r":(\d{4,})", reply)
    return f":{round(int(number[1]), -3)}" if number else reply


def agrees(redis_replies, seqd_replies):
    redis_replies, seqd_replies = (
        [rounded(reply) for reply in replies] for replies in (redis_replies, seqd_replies)
    )
    shortened = redis_replies[2] == f":{LESS_MS}" and seqd_replies[2] == f":{HELD_MS}"
    return redis_replies == seqd_replies or (shortened and redis_replies[:2] == seqd_replies[:2])


def compare(name, script, servers, rows):
    """Calls a script in every state of the lock, and checks each difference against the table."""
    digest = hashlib.sha1(script.encode()).hexdigest()
    if name.startswith(("redis-py ", "pottery ")):
        # Their clients load a script on one connection and name it on another, perhaps of a node
        # that does not have it.
        words = ["EVALSHA", digest, "1", f"{RUN}:script:unsent", *ARGUMENTS[name][0]]
        reply = servers[1].connection.call(words)[0]
        check(f"{name}: known without SCRIPT LOAD", "NOSCRIPT" not in reply, reply)
    sha = "$" + digest
    loaded = [server.load(script) for server in servers]
    if not check(f"{name}: SCRIPT LOAD", loaded == [sha, sha], loaded[1]):
        return
    states = {"free": "", "own": VALUE, "foreign": "another-owner"}
    for (number, arguments), state in itertools.product(enumerate(ARGUMENTS[name]), states):
        key = f"{RUN}:script:{name.replace(' ', ':')}:{number}:{state}"
        replies = [server.case(script, key, states[state], arguments) for server in servers]
        text = f"{name} {state} {' '.join(arguments)}"
        on_redis, on_seqd = (" ".join(reply) for reply in replies)
        explained = any(row.explains(text, on_redis, on_seqd) for row in rows)
        if not agrees(*replies) and not explained:
            check(text, False, f"redis {on_redis}, seqd {on_seqd}")
    check(f"{name}: called", True, f"{len(states) * len(ARGUMENTS[name])} times")


def main():
    servers = [Server(address) for address in sys.argv[1:3]]
    found = dict(itertools.chain(python_scripts(), go_scripts(), node_scripts(), java_scripts()))
    missing = set(ARGUMENTS) - set(found)
    check("every listed script is in its package", not missing, missing or f"{len(found)} scripts")
    rows = table()
    for name, script in found.items():
        if check(f"{name} is in the table", name in ARGUMENTS, script):
            compare(name, script, servers, rows)
    done()


main()
