"""Random commands for `differential.py`, valid and not, from a seed.

A case is a name in one of three states, one command on it, and a look at the name afterwards. In
the text of a command the name is replaced by its state: `absent`, `counter` or `lock`.
"""

import hashlib
import random

NUMBERS = ["1", "2", "10", "1000", "1000000"]
ODD_NUMBERS = [
    "0",
    "-1",
    "1000001",
    "9223372036854775807",
    "9223372036854775808",
    "abc",
    "",
    "1.5",
    " 1",
    "+1",
    "01",
]
SECONDS, MILLISECONDS = ["1", "10", "3600"], ["100", "2000", "60000", "86400000"]
ODD_TIMES = ["0", "-5", "99", "86400001", "x", "1.5", "99999999999999999999"]
ODD_NAMES = ["", "{} with space", "k" * 300 + "{}", "\u00fc{}", "{}\t", "-{}", "/{}"]
VALUES = ["owner", "me", "0b7e:1", "AbC+/==", "w" * 128]
ODD_VALUES = ["", "w" * 129, "with space", "new\nline", "\u00fc"]
OWNED = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call({}) else return {} end"
FORMS = {
    "release": OWNED.format("'del', KEYS[1]", "0"),
    "extend": OWNED.format("'pexpire', KEYS[1], ARGV[2]", "0"),
    "left": OWNED.format("'pttl', KEYS[1]", "-3"),
    "other": "return redis.call('set', KEYS[1], ARGV[1])",
}
OWNER = "owner"
CHANNEL = "redisson_lock__channel:{jobs}"


class Case:
    """The state of the name, the words of the command, and how the command is printed."""

    def __init__(self, command, rng, name):
        self.state = rng.choice(["absent", "counter", "lock"])
        self.name = name
        if rng.random() < 0.04:
            self.state, self.name = "absent", rng.choice(ODD_NAMES).replace("{}", name)
        words = ARGUMENTS[command](rng, self.state)
        # Now and then too few or too many arguments.
        if rng.random() < 0.06:
            words = words[:-1] if rng.random() < 0.5 else words + ["extra"]
        self.takes_name = NAME in words
        label = self.state if self.name == name else "oddname"
        self.words = [command, *(name_of(word, self.name) for word in words)]
        self.text = " ".join(
            [command, *(label if word is NAME else shorten(word) for word in words)]
        )
        self.look = [["GET", self.name], ["PTTL", self.name]] if self.takes_name else []

    def setup(self):
        if not self.takes_name:
            return []
        if self.state == "counter":
            return [["INCRBY", self.name, "7"]]
        if self.state == "lock":
            # No time among the arguments is equal to this one.
            return [["SET", self.name, OWNER, "NX", "PX", "50000"]]
        return []


# Stand for the name of the case and for a name that nothing has.
NAME, UNKNOWN = object(), "unknown"


def name_of(word, name):
    if word is NAME:
        return name
    return f"{name}:unknown" if word is UNKNOWN else word


def shorten(word):
    text = word if len(word) < 40 else f"{word[:12]}..({len(word)})"
    return repr(text) if not text or not text.isprintable() or text != text.strip() else text


def number(rng, *_):
    return rng.choice(NUMBERS if rng.random() < 0.6 else ODD_NUMBERS)


def time_of(rng, usual):
    return rng.choice(usual if rng.random() < 0.7 else ODD_TIMES)


def cased(rng, word):
    return rng.choice([word, word.lower(), word.title()])


def set_words(rng, _):
    value = rng.choice([rng.choice(VALUES), number(rng), rng.choice(ODD_VALUES)])
    words = [NAME, value]
    options = []
    if rng.random() < 0.7:
        options.append([cased(rng, "NX")])
    if rng.random() < 0.75:
        unit, usual = rng.choice([("PX", MILLISECONDS), ("EX", SECONDS)])
        options.append([cased(rng, unit), time_of(rng, usual)])
    if rng.random() < 0.12:
        options.append([rng.choice(["XX", "GET", "KEEPTTL", "NOSUCH", "NX"])])
    rng.shuffle(options)
    return words + [word for option in options for word in option]


def expire_words(rng, usual):
    words = [NAME, time_of(rng, usual)]
    return (
        words + [rng.choice(["NX", "XX", "GT", "LT", "NOSUCH"])] if rng.random() < 0.15 else words
    )


def names(rng, _):
    return [NAME] + [UNKNOWN] * rng.choice([0, 0, 1, 3])


def script_words(rng, script, known):
    arguments = [rng.choice([OWNER, "another"])]
    if known == "extend":
        arguments.append(time_of(rng, MILLISECONDS))
    count = "1" if rng.random() < 0.9 else rng.choice(["0", "2", "-1", "x", "9"])
    return [script, count, NAME, *arguments]


def eval_words(rng, _):
    known = rng.choice(list(FORMS))
    return script_words(rng, FORMS[known], known)


def evalsha_words(rng, _):
    known = rng.choice(["release", "extend", "left"])
    sha = hashlib.sha1(FORMS[known].encode()).hexdigest()
    return script_words(rng, rng.choice([sha, sha, sha.upper(), "0" * 40, "short"]), known)


def script_subcommand(rng, _):
    text = rng.choice(list(FORMS.values()))
    sha = hashlib.sha1(text.encode()).hexdigest()
    exists = ["EXISTS", *rng.sample([sha, "0" * 40, "short"], rng.randint(1, 3))]
    return rng.choice(
        [["LOAD", text], ["LOAD", text], exists, exists, ["NOSUCH"], ["LOAD", "not lua ("]]
    )


def fixed(*choices):
    return lambda rng, _: list(rng.choice(choices))


ARGUMENTS = {
    "INCR": lambda rng, _: [NAME],
    "INCRBY": lambda rng, _: [NAME, number(rng)],
    "GET": lambda rng, _: [NAME],
    "SET": set_words,
    "PTTL": lambda rng, _: [NAME],
    "TTL": lambda rng, _: [NAME],
    "EXISTS": names,
    "TYPE": lambda rng, _: [NAME],
    "PEXPIRE": lambda rng, _: expire_words(rng, MILLISECONDS),
    "EXPIRE": lambda rng, _: expire_words(rng, SECONDS),
    "DEL": names,
    "UNLINK": names,
    "EVAL": eval_words,
    "EVALSHA": evalsha_words,
    "SCRIPT": script_subcommand,
    "HGET": lambda rng, _: [NAME, rng.choice([OWNER, "another", ""])],
    "HEXISTS": lambda rng, _: [NAME, rng.choice([OWNER, "another", ""])],
    "SUBSCRIBE": fixed([CHANNEL], [CHANNEL], ["news"], []),
    "UNSUBSCRIBE": fixed([], [CHANNEL], ["news"]),
    "PING": fixed([], ["hello"], [""]),
    "ECHO": fixed(["hello"], [""], ["a b"]),
    "SELECT": fixed(["0"], ["0"], ["1"], ["15"], ["16"], ["x"], ["-1"]),
    "HELLO": fixed(
        ["2"],
        ["2"],
        ["4"],
        ["x"],
        ["2", "SETNAME", "me"],
        ["2", "SETNAME"],
        ["2", "AUTH", "default"],
    ),
    "CLIENT": fixed(
        ["SETNAME", "me"], ["GETNAME"], ["SETNAME", "with space"], ["ID"], ["NOSUCH"], ["SETNAME"]
    ),
    "CONFIG": fixed(["GET", "save"], ["GET", "appendonly"], ["GET", "nosuch"], ["GET"], ["NOSUCH"]),
    "COMMAND": fixed([], ["COUNT"], ["NOSUCH"]),
    "INFO": fixed([], ["server"], ["replication"]),
    "WAIT": fixed(["0", "100"], ["x", "0"], ["0", "-1"], ["0"]),
    "DBSIZE": fixed([], ["extra"]),
    "TIME": fixed([], ["extra"]),
    "AUTH": fixed([""], ["password"], ["default", "password"], ["nobody", "password"]),
    "MULTI": fixed([]),
    "NOSUCH": fixed([], ["a"], ["a", "b c"]),
}


def cases(command, seed, count, run):
    rng = random.Random(f"{seed}:{command}")
    return [Case(command, rng, f"{run}:{command.lower()}:{number}") for number in range(count)]
