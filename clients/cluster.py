#!/usr/bin/env python3
"""A cluster of three real nodes with TLS and tokens, for tests of programs that use one.

    cluster.py SEQD [COMMAND...]     run a command with a cluster; without one, print its variables and wait

The command finds the cluster in BINARY, SEQD_ENDPOINTS, SEQD_CACERT, SEQD_CERT, SEQD_KEY, SEQD_TOKEN and NODES
(`n1=URL,...`), and controls it by POST requests to CONTROL, whose response is the name of a node:

    /leader                                       who leads
    /kill/NODE, /stop/NODE, /continue/NODE        SIGKILL, SIGSTOP, SIGCONT; NODE may be `leader`
    /start                                        start killed nodes again, and wait until they are ready
"""

import http.server
import json
import os
import pathlib
import random
import secrets
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

NAMES = ("n1", "n2", "n3")
READY_S = 60
"""A node starts in about a second; a busy machine takes longer."""

WINDOW = "6s"
"""Short, so that a test can wait for its end, and long enough for an election on a busy machine."""

SIGNALS = {"stop": signal.SIGSTOP, "continue": signal.SIGCONT}

CONFIG = """
[node]
name = "{name}"
data_dir = "{folder}/{name}"
[http]
advertise = "https://127.0.0.1:{http}"
[peer]
peers = [{peers}]
[clock]
window = "{window}"
[tls]
cert = "{folder}/tls/{name}.crt"
key = "{folder}/tls/{name}.key"
client_ca = "{folder}/tls/ca.crt"
peer_cert = "{folder}/tls/{name}.crt"
peer_key = "{folder}/tls/{name}.key"
peer_ca = "{folder}/tls/ca.crt"
[auth]
enabled = {auth}
bootstrap_token_file = "{folder}/token"
"""


RESERVED = []
"""The UDP sockets of the ports that were given out. While one is bound, no other test takes the TCP port of the same
number; the harness of the stories reserves its ports in the same way."""


def free_ports(count):
    """Ports below the range of those that the system assigns, one of which an outgoing connection could take
    before the server listens on it."""
    ports = []
    while len(ports) < count:
        port = random.randrange(20_000, 32_000)
        reservation, listener = socket.socket(type=socket.SOCK_DGRAM), socket.socket()
        try:
            reservation.bind(("127.0.0.1", port))
            listener.bind(("127.0.0.1", port))
        except OSError:
            reservation.close()
        else:
            RESERVED.append(reservation)
            ports.append(port)
        listener.close()
    return ports


class Cluster:
    """`more` are further ports of each node, of `health`, `redis` and `memcached`."""

    def __init__(self, binary, window=WINDOW, more=(), auth=True):
        self.binary = pathlib.Path(binary).resolve()
        self.window, self.auth = window, auth
        self.kinds = ("http", "peer", *more)
        self.nodes = {}

    def __enter__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="seqd-cluster."))
        try:
            self._prepare()
            for name in NAMES:
                self._start(name)
            self._wait_ready(NAMES)
            self._serve_control()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _prepare(self):
        tls = self.folder / "tls"
        nodes = ",".join(f"{name}=127.0.0.1" for name in NAMES)
        command = [self.binary, "tls", "init", "--dir", tls, "--nodes", nodes, "--client", "app"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        self.token = secrets.token_hex(24)
        token = self.folder / "token"
        token.touch(0o600)
        token.write_text(self.token)
        ports = iter(free_ports(len(self.kinds) * len(NAMES)))
        self.ports = {name: {kind: next(ports) for kind in self.kinds} for name in NAMES}
        peers = ", ".join(f'"{name}=127.0.0.1:{self.ports[name]["peer"]}"' for name in NAMES)
        for name in NAMES:
            text = CONFIG.format(name=name, folder=self.folder, http=self.ports[name]["http"], peers=peers,
                                 window=self.window, auth=str(self.auth).lower())
            (self.folder / f"{name}.toml").write_text(text)
        self.context = ssl.create_default_context(cafile=tls / "ca.crt")
        self.context.load_cert_chain(tls / "app.crt", tls / "app.key")

    def _start(self, name):
        command = [self.binary, "server", "--config", self.folder / f"{name}.toml"]
        for kind, port in self.ports[name].items():
            command += [f"--{kind}-listen", f"127.0.0.1:{port}"]
        environment = {k: v for k, v in os.environ.items() if not k.startswith("SEQD_")}
        with open(self.folder / f"{name}.log", "ab") as log:
            self.nodes[name] = subprocess.Popen(command, stdout=log, stderr=log, env=environment)

    def url(self, name):
        return f"https://127.0.0.1:{self.ports[name]['http']}"

    def get(self, name, path):
        request = urllib.request.Request(self.url(name) + path)
        request.add_header("authorization", f"Bearer {self.token}")
        with urllib.request.urlopen(request, timeout=3, context=self.context) as answer:
            return answer.read()

    def is_running(self, name):
        return self.nodes[name].poll() is None

    def _wait_ready(self, names):
        until = time.monotonic() + READY_S
        for name in names:
            while True:
                try:
                    self.get(name, "/readyz")
                    break
                except OSError as error:
                    if time.monotonic() > until or not self.is_running(name):
                        log = (self.folder / f"{name}.log").read_text()[-2000:]
                        raise RuntimeError(f"{name} is not ready: {error}\n{log}") from None
                    time.sleep(0.1)

    def leader(self):
        """The running node that itself reports that it leads."""
        until = time.monotonic() + READY_S
        while time.monotonic() < until:
            for name in filter(self.is_running, NAMES):
                try:
                    if json.loads(self.get(name, "/v1/cluster"))["leader"] == name:
                        return name
                except OSError:
                    pass
            time.sleep(0.1)
        raise RuntimeError(f"no leader after {READY_S} s")

    def kill(self, name):
        self.nodes[name].kill()
        self.nodes[name].wait()

    def start(self):
        """Starts the nodes that do not run, and waits until they are ready."""
        ended = [name for name in NAMES if not self.is_running(name)]
        for name in ended:
            self._start(name)
        self._wait_ready(ended)
        return ",".join(ended)

    def _obey(self, command, name=None):
        if command == "start":
            return self.start()
        name = self.leader() if name in (None, "leader") else name
        if command == "kill":
            self.kill(name)
        elif command != "leader":
            self.nodes[name].send_signal(SIGNALS[command])
        return name

    def _serve_control(self):
        cluster = self

        class Control(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                try:
                    status, text = 200, cluster._obey(*self.path.split("/")[1:])
                except (KeyError, TypeError, RuntimeError, OSError) as error:
                    status, text = 500, repr(error)
                self.send_response(status)
                self.send_header("content-length", str(len(text.encode())))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_):
                pass

        self.control = http.server.HTTPServer(("127.0.0.1", 0), Control)
        threading.Thread(target=self.control.serve_forever, daemon=True).start()

    def environment(self):
        tls = self.folder / "tls"
        return {
            "BINARY": str(self.binary),
            "SEQD_ENDPOINTS": ",".join(map(self.url, NAMES)),
            "SEQD_CACERT": str(tls / "ca.crt"),
            "SEQD_CERT": str(tls / "app.crt"),
            "SEQD_KEY": str(tls / "app.key"),
            "SEQD_TOKEN": self.token,
            "NODES": ",".join(f"{name}={self.url(name)}" for name in NAMES),
            "CONTROL": f"http://127.0.0.1:{self.control.server_port}",
        }

    def __exit__(self, *_):
        if hasattr(self, "control"):
            self.control.shutdown()
            self.control.server_close()
        for node in self.nodes.values():
            node.kill()
            node.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    # Without this, a terminated run would leave its nodes behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with Cluster(sys.argv[1]) as cluster:
        if sys.argv[2:]:
            return subprocess.run(sys.argv[2:], env={**os.environ, **cluster.environment()}).returncode
        for name, value in cluster.environment().items():
            print(f"export {name}={value}", flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    sys.exit(main())
