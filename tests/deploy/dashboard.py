"""Executes the queries of the dashboard and of the alerts against a real Prometheus.

The Prometheus scrapes three real nodes with TLS under a small load. A query without a value means
that a panel stays empty: the run fails. No alert may fire on a healthy cluster.
"""

import json
import pathlib
import re
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAMES = ["n1", "n2", "n3"]
# Long enough for rates over a minute of scrapes.
LOAD_SECONDS = 90
READY_SECONDS = 60


def free_ports(count):
    held = []
    for _ in range(count):
        sock = socket.socket()
        sock.bind(("127.0.0.1", 0))
        held.append(sock)
    ports = [sock.getsockname()[1] for sock in held]
    for sock in held:
        sock.close()
    return ports


def wait(what, is_done):
    until = time.monotonic() + READY_SECONDS
    while time.monotonic() < until:
        try:
            if is_done():
                return
        except OSError:
            pass
        time.sleep(0.2)
    raise SystemExit(f"failed: {what} took more than {READY_SECONDS} s")


def fetch(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode()


class Cluster:
    """Three nodes with TLS, each with a health port, Redis and memcached."""

    def __init__(self, binary, folder):
        self.binary, self.folder = binary, folder
        self.tls = folder / "tls"
        nodes = ",".join(f"{name}=127.0.0.1" for name in NAMES)
        self.seqd_plain("tls", "init", "--dir", str(self.tls), "--nodes", nodes, "--client", "admin")
        ports = free_ports(5 * len(NAMES))
        kinds = ["http", "peer", "health", "redis", "memcached"]
        self.ports = {
            name: dict(zip(kinds, ports[at * 5 : at * 5 + 5])) for at, name in enumerate(NAMES)
        }
        self.processes = [self.start(name) for name in NAMES]

    def start(self, name):
        ports, tls = self.ports[name], self.tls
        peers = ",".join(f"{peer}=127.0.0.1:{self.ports[peer]['peer']}" for peer in NAMES)
        words = [self.binary, "server", "--name", name, "--data-dir", str(self.folder / name)]
        words += ["--peer-peers", peers, "--http-advertise", f"https://127.0.0.1:{ports['http']}"]
        for kind, port in ports.items():
            words += [f"--{kind}-listen", f"127.0.0.1:{port}"]
        for key in ["tls", "tls-peer"]:
            words += [f"--{key}-cert", str(tls / f"{name}.crt")]
            words += [f"--{key}-key", str(tls / f"{name}.key")]
        words += ["--tls-client-ca", str(tls / "ca.crt"), "--tls-peer-ca", str(tls / "ca.crt")]
        log = open(self.folder / f"{name}.log", "w")
        return subprocess.Popen(words, stdout=log, stderr=log)

    def seqd_plain(self, *words):
        return subprocess.run([self.binary, *words], check=True, capture_output=True, text=True)

    def seqd(self, *words):
        endpoints = ",".join(f"https://127.0.0.1:{self.ports[name]['http']}" for name in NAMES)
        tls = self.tls
        options = ["-e", endpoints, "--cacert", tls / "ca.crt"]
        options += ["--cert", tls / "admin.crt", "--key", tls / "admin.key"]
        return self.seqd_plain(*map(str, options), *words)

    def health(self, name, path):
        return fetch(f"http://127.0.0.1:{self.ports[name]['health']}{path}")

    def memcached(self):
        tls = ssl.create_default_context(cafile=self.tls / "ca.crt")
        tls.load_cert_chain(self.tls / "admin.crt", self.tls / "admin.key")
        address = ("127.0.0.1", self.ports["n1"]["memcached"])
        with (
            socket.create_connection(address, timeout=10) as plain,
            tls.wrap_socket(plain, server_hostname="127.0.0.1") as sock,
        ):
            sock.sendall(b"get id\r\nquit\r\n")
            while sock.recv(4096):
                pass

    def load(self):
        """A little of everything that the dashboard shows, until the rates have enough scrapes."""
        self.seqd("seq", "create", "order", "--mode", "strict", "--max", "1000000")
        until = time.monotonic() + LOAD_SECONDS
        while time.monotonic() < until:
            self.seqd("id", "-n", "100")
            self.seqd("seq", "next", "order", "--count", "3")
            self.seqd("token", "issue", "--ttl", "10m")
            self.seqd("lock", "acquire", "job", "--owner", "run", "--ttl", "2s", "--wait", "30s")
            self.memcached()
            time.sleep(1)

    def stop(self):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait(timeout=30)


class Prometheus:
    """A Prometheus with the shipped rules, which scrapes the health ports every two seconds."""

    def __init__(self, folder, cluster):
        targets = [f"127.0.0.1:{cluster.ports[name]['health']}" for name in NAMES]
        rules = ROOT / "deploy/prometheus/seqd.rules.yml"
        config = folder / "prometheus.yml"
        config.write_text(
            json.dumps(
                {
                    "global": {"scrape_interval": "2s", "evaluation_interval": "2s"},
                    "rule_files": [str(rules)],
                    "scrape_configs": [
                        {"job_name": "seqd", "static_configs": [{"targets": targets}]}
                    ],
                }
            )
        )
        (self.port,) = free_ports(1)
        log = open(folder / "prometheus.log", "w")
        words = ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder}/tsdb"]
        words += [f"--web.listen-address=127.0.0.1:{self.port}"]
        self.process = subprocess.Popen(words, stdout=log, stderr=log)

    def api(self, path, **query):
        text = fetch(f"http://127.0.0.1:{self.port}{path}?{urllib.parse.urlencode(query)}")
        return json.loads(text)["data"]

    def query(self, expression):
        expression = expression.replace("$__rate_interval", "1m").replace("$__range", "1h")
        return self.api("/api/v1/query", query=expression)["result"]

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=30)


def shown(series):
    labels = ",".join(f"{name}={value}" for name, value in series["metric"].items()
                      if name in ("instance", "layout", "peer", "sequence", "status", "route",
                                  "protocol", "code", "kind", "use"))
    return f"{{{labels}}} {float(series['value'][1]):.4g}"


def panels(prometheus):
    """Prints the values of each panel; returns the queries without any number."""
    empty = []
    dashboard = json.loads((ROOT / "deploy/grafana/seqd.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            found = prometheus.query(target["expr"])
            numbers = [one for one in found if one["value"][1] != "NaN"]
            print(f"{panel['title']}: {'; '.join(shown(one) for one in numbers[:4]) or 'EMPTY'}")
            if not numbers:
                empty.append(f"{panel['title']}: {target['expr']}")
    return len(dashboard["panels"]), empty


def alerts(prometheus):
    """Prints the state of each rule; returns those that could not be evaluated or that fire."""
    wrong = []
    for group in prometheus.api("/api/v1/rules")["groups"]:
        for rule in group["rules"]:
            print(f"{rule['name']}: {rule['state']}, {rule['health']}")
            names = re.findall(r"\b(?:seqd|process)_\w+", rule["query"])
            names = [name for name in names if name != "seqd_workers_exhaustion_timestamp_seconds"]
            missing = [name for name in names if not prometheus.query(name)]
            if rule["state"] == "firing" or rule["health"] != "ok" or missing:
                wrong.append(f"{rule['name']}: {rule['state']} {missing}")
    return wrong


def main():
    binary = sys.argv[1]
    if not shutil.which("prometheus"):
        raise SystemExit("failed: prometheus is missing (apt-get install prometheus)")
    with tempfile.TemporaryDirectory(prefix="seqd-dashboard.") as folder:
        folder = pathlib.Path(folder)
        cluster = Cluster(binary, folder)
        prometheus = Prometheus(folder, cluster)
        try:
            wait("the cluster", lambda: all(cluster.health(name, "/readyz") for name in NAMES))
            wait("prometheus", lambda: fetch(f"http://127.0.0.1:{prometheus.port}/-/ready"))
            cluster.load()
            count, empty = panels(prometheus)
            wrong = alerts(prometheus)
        finally:
            prometheus.stop()
            cluster.stop()
    for line in empty + wrong:
        print(f"wrong: {line}")
    if empty or wrong:
        raise SystemExit("failed")
    print(f"passed: {count} panels have values, no alert fires")


main()
