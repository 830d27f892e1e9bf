"""Executes the queries of the dashboard and of the alerts against a real Prometheus.

The Prometheus scrapes three real nodes with TLS under a small load. A query without a value means
that a panel stays empty: the run fails. No alert may fire on a healthy cluster.
"""

import json
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "clients"))

from cluster import NAMES, Cluster, free_ports

# Long enough for rates over a minute of scrapes.
LOAD_SECONDS = 90
READY_SECONDS = 60


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


def memcached(cluster):
    address = ("127.0.0.1", cluster.ports["n1"]["memcached"])
    with (
        socket.create_connection(address, timeout=10) as plain,
        cluster.context.wrap_socket(plain, server_hostname="127.0.0.1") as sock,
    ):
        sock.sendall(b"get id\r\nquit\r\n")
        while sock.recv(4096):
            pass


def load(cluster):
    """A little of everything that the dashboard shows, until the rates have enough scrapes."""
    # A token is for nodes with access tokens.
    environment = {key: value for key, value in cluster.environment().items() if key != "SEQD_TOKEN"}

    def seqd(*words):
        subprocess.run([cluster.binary, *words], check=True, capture_output=True, env=environment)

    seqd("seq", "create", "order", "--mode", "strict", "--max", "1000000")
    until = time.monotonic() + LOAD_SECONDS
    while time.monotonic() < until:
        seqd("id", "-n", "100")
        seqd("seq", "next", "order", "--count", "3")
        seqd("token", "issue", "--ttl", "10m")
        seqd("lock", "acquire", "job", "--owner", "run", "--ttl", "2s", "--wait", "30s")
        memcached(cluster)
        time.sleep(1)


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
        for name, value in (("$__rate_interval", "1m"), ("$__range", "1h"), ("$job", "seqd")):
            expression = expression.replace(name, value)
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
    # Without tokens, because memcached has none.
    ports = ("health", "redis", "memcached")
    with (
        tempfile.TemporaryDirectory(prefix="seqd-dashboard.") as folder,
        Cluster(binary, "30s", more=ports, auth=False) as cluster,
    ):
        prometheus = Prometheus(pathlib.Path(folder), cluster)
        try:
            wait("prometheus", lambda: fetch(f"http://127.0.0.1:{prometheus.port}/-/ready"))
            load(cluster)
            count, empty = panels(prometheus)
            wrong = alerts(prometheus)
        finally:
            prometheus.stop()
    for line in empty + wrong:
        print(f"wrong: {line}")
    if empty or wrong:
        raise SystemExit("failed")
    print(f"passed: {count} panels have values, no alert fires")


main()
