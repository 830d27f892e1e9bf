"""Three `seqd server` processes on loopback, each of which can be killed and started again.

As a program, `cluster.py SEQD_BINARY` prints the addresses as options of `run`, and serves until
its standard input ends.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

from ports import free_port


class Node:
    def __init__(self, binary, folder, name):
        self.binary, self.name = binary, name
        self.folder = pathlib.Path(folder) / name
        self.http_port, self.peer_port = free_port(), free_port()
        self.redis_port, self.memcached_port = free_port(), free_port()
        self.process = None

    def start(self, peers=None):
        self.folder.mkdir(exist_ok=True)
        config = self.folder / "seqd.toml"
        if peers:
            config.write_text(
                f'[node]\nname = "{self.name}"\ndata_dir = "{self.folder / "data"}"\n'
                f'[http]\nlisten = "127.0.0.1:{self.http_port}"\n'
                f'[peer]\nlisten = "127.0.0.1:{self.peer_port}"\npeers = {json.dumps(peers)}\n'
                f'[redis]\nlisten = "127.0.0.1:{self.redis_port}"\n'
                f'[memcached]\nlisten = "127.0.0.1:{self.memcached_port}"\n'
                '[compat]\nroutes = ["leaf", "tinyid", "cosid", "katsubushi"]\n'
            )
        environment = {
            key: value for key, value in os.environ.items() if not key.startswith("SEQD_")
        }
        with open(self.folder / "log", "a") as log:
            command = [self.binary, "server", "--config", str(config)]
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
        if self.process:
            self.process.wait()

    def cluster(self):
        """What this node reports about the cluster, or an empty object if it does not respond."""
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self.http_port}/v1/cluster", timeout=1
            ) as response:
                return json.load(response)
        except OSError:
            return {}


class Cluster:
    def __init__(self, binary, folder, size=3, limit_s=30):
        self.nodes = [Node(binary, folder, f"n{number + 1}") for number in range(size)]
        self.limit_s = limit_s

    def __enter__(self):
        # Without this, a terminated program would leave its nodes behind.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        peers = [f"{node.name}=127.0.0.1:{node.peer_port}" for node in self.nodes]
        for node in self.nodes:
            node.start(peers)
        try:
            self.leader()
            self.wait(
                "three ready members",
                lambda: all(len(ready(node.cluster())) == 3 for node in self.nodes),
            )
        except TimeoutError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for node in self.nodes:
            node.kill()

    def wait(self, what, condition):
        end = time.monotonic() + self.limit_s
        while not (value := condition()):
            if time.monotonic() > end:
                log = (self.nodes[0].folder / "log").read_text()[-2000:]
                raise TimeoutError(f"{what}: not within {self.limit_s} s\n{log}")
            time.sleep(0.1)
        return value

    def leader(self):
        """The running node that itself reports that it leads."""

        def find():
            for node in self.nodes:
                state = node.cluster()
                if state.get("leader") == node.name == state.get("node"):
                    return node
            return None

        return self.wait("a leader", find)


def ready(state):
    return [member for member in state.get("members", []) if member.get("state") == "ready"]


def main():
    with (
        tempfile.TemporaryDirectory(prefix="seqd-cluster.") as folder,
        Cluster(sys.argv[1], folder) as cluster,
    ):
        redis, memcached = (
            ",".join(f"127.0.0.1:{getattr(node, port)}" for node in cluster.nodes)
            for port in ("redis_port", "memcached_port")
        )
        http = f"http://127.0.0.1:{cluster.nodes[0].http_port}"
        print(f"--redis {redis} --memcached {memcached} --http {http}", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
