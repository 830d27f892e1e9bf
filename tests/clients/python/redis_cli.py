"""redis-cli and redis-benchmark: arguments, standard input, RESP3, and a short load."""

import re
import subprocess

from checks import REDIS, RUN, check, done, equal, host_port

host, port = host_port(REDIS)
name = f"{RUN}:redis-cli"


def run(program, *words, stdin=""):
    command = [program, "-h", host, "-p", str(port), *words]
    result = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60)
    return result.stdout.strip() + result.stderr.strip()


equal("INCR", run("redis-cli", "INCR", name), "1")
equal("INCRBY", run("redis-cli", "INCRBY", name, "10"), "11")
equal("-3 INCR", run("redis-cli", "-3", "INCR", name), "12")
equal("--no-raw shows the type", run("redis-cli", "--no-raw", "INCR", name), "(integer) 13")
equal("--no-raw shows nil", run("redis-cli", "--no-raw", "GET", name + ":unknown"), "(nil)")
equal(
    "--no-raw -3 shows nil", run("redis-cli", "--no-raw", "-3", "GET", name + ":unknown"), "(nil)"
)
equal("-r repeats", run("redis-cli", "-r", "3", "INCR", name), "14\n15\n16")
equal(
    "commands from standard input",
    run("redis-cli", stdin=f"INCR {name}\nINCR {name}\nPING\n"),
    "17\n18\nPONG",
)
equal("SET NX PX", run("redis-cli", "SET", name + ":lock", "me", "NX", "PX", "5000"), "OK")
equal(
    "SET NX PX of a held lock",
    run("redis-cli", "--no-raw", "SET", name + ":lock", "you", "NX", "PX", "5000"),
    "(nil)",
)
release = "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[1]) "
release += "else return 0 end"
equal(
    "--eval-style release by another",
    run("redis-cli", "EVAL", release, "1", name + ":lock", "you"),
    "0",
)
equal("--eval-style release", run("redis-cli", "EVAL", release, "1", name + ":lock", "me"), "1")
check("an error", "unknown command" in (error := run("redis-cli", "NOSUCH")), error)
check("INFO", "redis_version:" in (info := run("redis-cli", "INFO", "server")), info[:40])
equal("-n 0", run("redis-cli", "-n", "0", "PING"), "PONG")

for options in (["-c", "1"], ["-c", "20"], ["-c", "20", "-P", "16"], ["-c", "4", "-3"]):
    output = run("redis-benchmark", "-q", "-n", "2000", *options, "incr", name + ":benchmark")
    rate = re.search(r"([0-9.]+) requests per second", output)
    check(
        f"redis-benchmark {' '.join(options)}", bool(rate), rate.group(0) if rate else output[-150:]
    )
equal("every INCR of the benchmark counted", run("redis-cli", "GET", name + ":benchmark"), "8000")
built_in = run("redis-benchmark", "-q", "-n", "500", "-c", "5", "-t", "incr")
check("redis-benchmark -t incr", "requests per second" in built_in, built_in[-60:])
done()
