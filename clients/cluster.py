#!/usr/bin/env python3
"""A cluster of three nodes on loopback with TLS and access tokens, for the tests of the client libraries.

    cluster.py SEQD [WINDOW]    starts it with a window such as 30s; the first line of stdout describes it as JSON

Commands on stdin, each answered by one line of JSON: `leader`, `kill NAME`, `start NAME`, `stop NAME` and `continue
NAME` (SIGSTOP, SIGCONT). The nodes and their folder are removed at the end of stdin.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

NAMES = ["n1", "n2", "n3"]
READY_S = 60  # a busy machine starts three nodes in a few seconds


def free_ports(count):
    """Ports that are free now. All sockets are open at once, so that no port occurs twice."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Cluster:
    def __init__(self, seqd, folder, window):
        self.seqd, self.folder, self.window, self.nodes = seqd, folder, window, {}
        ports = free_ports(6)
        self.http = dict(zip(NAMES, ports[:3]))
        self.peer = dict(zip(NAMES, ports[3:]))
        self.run("tls", "init", "--dir", f"{folder}/tls", "--client", "test",
                 "--nodes", ",".join(f"{name}=127.0.0.1" for name in NAMES))
        self.token = os.urandom(24).hex()
        with open(os.open(f"{folder}/token", os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
            file.write(self.token)
        self.address = {name: f"https://127.0.0.1:{port}" for name, port in self.http.items()}

    def run(self, *arguments):
        environment = {key: value for key, value in os.environ.items() if not key.startswith("SEQD_")}
        done = subprocess.run([self.seqd, *arguments], capture_output=True, text=True, env=environment)
        if done.returncode:
            raise SystemExit(f"seqd {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def start(self, name):
        tls, peers = f"{self.folder}/tls", [f'"{other}=127.0.0.1:{self.peer[other]}"' for other in NAMES]
        path = f"{self.folder}/{name}.toml"
        with open(path, "w") as file:
            file.write(f"""
[node]
name = "{name}"
data_dir = "{self.folder}/{name}"
[http]
listen = "127.0.0.1:{self.http[name]}"
advertise = "{self.address[name]}"
[peer]
listen = "127.0.0.1:{self.peer[name]}"
peers = [{", ".join(peers)}]
[clock]
window = "{self.window}"
[tls]
cert = "{tls}/{name}.crt"
key = "{tls}/{name}.key"
client_ca = "{tls}/ca.crt"
peer_cert = "{tls}/{name}.crt"
peer_key = "{tls}/{name}.key"
peer_ca = "{tls}/ca.crt"
[auth]
enabled = true
bootstrap_token_file = "{self.folder}/token"
""")
        environment = {key: value for key, value in os.environ.items() if not key.startswith("SEQD_")}
        log = open(f"{self.folder}/{name}.log", "ab")
        self.nodes[name] = subprocess.Popen([self.seqd, "server", "--config", path], stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, env=environment)

    def cluster(self, name):
        tls = f"{self.folder}/tls"
        try:
            return json.loads(self.run("status", "-o", "json", "--timeout", "2s",
                                       "-e", self.address[name], "--cacert", f"{tls}/ca.crt", "--cert",
                                       f"{tls}/test.crt", "--key", f"{tls}/test.key", "--token-file",
                                       f"{self.folder}/token"))
        except SystemExit:
            return {}

    def leader(self):
        """The leader that a running node names, once it is one that runs."""
        until = time.monotonic() + READY_S
        while time.monotonic() < until:
            for name, node in self.nodes.items():
                if node.poll() is None:
                    leader = self.cluster(name).get("leader")
                    if leader and self.nodes[leader].poll() is None:
                        return leader
            time.sleep(0.1)
        raise SystemExit("no leader: " + self.logs())

    def logs(self):
        return "\n".join(open(f"{self.folder}/{name}.log").read()[-2000:] for name in NAMES)

    def ready(self):
        for name in NAMES:
            self.start(name)
        self.leader()
        tls = f"{self.folder}/tls"
        return {"endpoints": ",".join(self.address.values()), "token": self.token, "ca": f"{tls}/ca.crt",
                "cert": f"{tls}/test.crt", "key": f"{tls}/test.key", "window": self.window,
                "nodes": self.address}

    def command(self, words):
        name = words[1] if len(words) > 1 else None
        if words[0] == "leader":
            return {"leader": self.leader()}
        node = self.nodes[name]
        if words[0] == "kill":
            node.kill()
            node.wait()
        elif words[0] == "start":
            self.start(name)
        else:
            node.send_signal({"stop": signal.SIGSTOP, "continue": signal.SIGCONT}[words[0]])
        return {"done": words[0]}

    def end(self):
        for node in self.nodes.values():
            node.kill()
            node.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    window = sys.argv[2] if len(sys.argv) == 3 else "30s"
    cluster = Cluster(sys.argv[1], tempfile.mkdtemp(prefix="seqd-clients-"), window)
    try:
        print(json.dumps(cluster.ready()), flush=True)
        for line in sys.stdin:
            print(json.dumps(cluster.command(line.split())), flush=True)
    finally:
        cluster.end()


if __name__ == "__main__":
    main()
