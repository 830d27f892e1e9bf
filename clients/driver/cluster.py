"""A cluster of three real nodes with TLS and tokens, for the tests of the libraries.

The programs find it in BINARY, SEQD_ENDPOINTS, SEQD_CACERT, SEQD_CERT, SEQD_KEY and SEQD_TOKEN, and
kill and revive its leader through CONTROL: `POST /kill-leader` and `POST /revive` over plain HTTP.
"""

import http.server
import json
import os
import pathlib
import secrets
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time
import urllib.request

NAMES = ("n1", "n2", "n3")
READY_S = 30
"""A node starts in about a second; a busy machine takes longer."""

CONFIG = """
[node]
name = "{name}"
data_dir = "{folder}/{name}"
[http]
listen = "127.0.0.1:{http}"
advertise = "https://127.0.0.1:{http}"
[peer]
listen = "127.0.0.1:{peer}"
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
enabled = true
bootstrap_token_file = "{folder}/token"
"""


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Cluster:
    def __init__(self, binary, window="5s"):
        self.binary = pathlib.Path(binary).resolve()
        self.window = window
        self.nodes = {}

    def __enter__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="seqd-clients."))
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
        nodes = ",".join(f"{name}=127.0.0.1" for name in NAMES)
        command = [self.binary, "tls", "init", "--dir", self.folder / "tls", "--nodes", nodes]
        subprocess.run([*command, "--client", "app"], check=True, stdout=subprocess.DEVNULL)
        self.token = secrets.token_hex(24)
        token = self.folder / "token"
        token.touch(0o600)
        token.write_text(self.token)
        ports = free_ports(6)
        self.http = dict(zip(NAMES, ports))
        peers = dict(zip(NAMES, ports[3:]))
        listed = ", ".join(f'"{name}=127.0.0.1:{port}"' for name, port in peers.items())
        for name in NAMES:
            text = CONFIG.format(name=name, folder=self.folder, http=self.http[name],
                                 peer=peers[name], peers=listed, window=self.window)
            (self.folder / f"{name}.toml").write_text(text)
        tls = self.folder / "tls"
        self.context = ssl.create_default_context(cafile=tls / "ca.crt")
        self.context.load_cert_chain(tls / "app.crt", tls / "app.key")

    def _start(self, name):
        log = open(self.folder / f"{name}.log", "ab")
        command = [self.binary, "server", "--config", self.folder / f"{name}.toml"]
        environment = {k: v for k, v in os.environ.items() if not k.startswith("SEQD_")}
        self.nodes[name] = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        log.close()

    def get(self, name, path):
        request = urllib.request.Request(f"https://127.0.0.1:{self.http[name]}{path}")
        request.add_header("authorization", f"Bearer {self.token}")
        with urllib.request.urlopen(request, timeout=3, context=self.context) as answer:
            return answer.read()

    def _wait_ready(self, names):
        until = time.monotonic() + READY_S
        for name in names:
            while True:
                try:
                    self.get(name, "/readyz")
                    break
                except OSError as error:
                    if time.monotonic() > until or self.nodes[name].poll() is not None:
                        log = (self.folder / f"{name}.log").read_text()[-2000:]
                        raise RuntimeError(f"{name} is not ready: {error}\n{log}") from None
                    time.sleep(0.1)

    def kill_leader(self):
        alive = [name for name, node in self.nodes.items() if node.poll() is None]
        until = time.monotonic() + READY_S
        while True:
            leader = json.loads(self.get(alive[0], "/v1/cluster"))["leader"]
            if leader in alive:
                break
            if time.monotonic() > until:
                raise RuntimeError("the cluster has no leader")
            time.sleep(0.1)
        self.nodes[leader].kill()
        self.nodes[leader].wait()
        return leader

    def revive(self):
        dead = [name for name, node in self.nodes.items() if node.poll() is not None]
        for name in dead:
            self._start(name)
        self._wait_ready(dead)
        return ",".join(dead)

    def _serve_control(self):
        cluster = self

        class Control(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                act = {"/kill-leader": cluster.kill_leader, "/revive": cluster.revive}
                try:
                    status, text = 200, act[self.path]()
                except (KeyError, RuntimeError, OSError) as error:
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
            "SEQD_ENDPOINTS": ",".join(f"https://127.0.0.1:{port}" for port in self.http.values()),
            "SEQD_CACERT": str(tls / "ca.crt"),
            "SEQD_CERT": str(tls / "app.crt"),
            "SEQD_KEY": str(tls / "app.key"),
            "SEQD_TOKEN": self.token,
            "CONTROL": f"http://127.0.0.1:{self.control.server_port}",
        }

    def __exit__(self, *_):
        if hasattr(self, "control"):
            self.control.shutdown()
            self.control.server_close()
        for node in self.nodes.values():
            if node.poll() is None:
                node.send_signal(signal.SIGKILL)
            node.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
