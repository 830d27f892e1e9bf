"""memccat, memcstat and memcping of libmemcached, in the text and the binary protocol."""

import subprocess

from checks import MEMCACHED, check, done


def run(*command):
    result = subprocess.run(
        [*command, f"--servers={MEMCACHED}"], capture_output=True, text=True, timeout=20
    )
    return result.returncode, (result.stdout + result.stderr).strip()


for options in ([], ["--binary"]):
    protocol = options[0] if options else "text"
    code, first = run("memccat", *options, "id")
    check(f"memccat, {protocol}", code == 0 and first.isdigit(), first)
    code, second = run("memccat", *options, "id")
    check(f"memccat again, {protocol}", second.isdigit() and int(second) > int(first or 0), second)
    code, stats = run("memcstat", *options)
    check(f"memcstat, {protocol}", "uptime" in stats and "version" in stats, stats[:150])
code, ping = run("memcping")
check("memcping", code == 0, ping or "exit 0")
done()
