"""What the tests share: the vectors, stub nodes, and the cluster that `clients/run` started."""

import json
import os
import pathlib
import socket
import sys
import threading
import unittest
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python/src"))

VECTORS = json.loads((ROOT / "vectors.json").read_text())
SHORT = bool(os.environ.get("SHORT"))
on_cluster = unittest.skipUnless(os.environ.get("CONTROL"), "needs the cluster of clients/run")


def control(path):
    with urllib.request.urlopen(os.environ["CONTROL"] + path, data=b"", timeout=60) as answer:
        return answer.read().decode()


class Node:
    """A stub that does what a case of the vectors says. Counts requests other than `/livez`."""

    def __init__(self, case):
        self.case, self.requests, self.held = case, 0, []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.name = "http://127.0.0.1:%d" % self.socket.getsockname()[1]
        if case["does"] == "refuse":
            self.socket.close()
        else:
            threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            head = connection.recv(65536)
            is_livez = head.startswith(b"GET /livez ")
            self.requests += not is_livez
            does = self.case["does"]
            if (does == "hang-livez" and is_livez) or (does in ("hang", "hang-livez") and not is_livez):
                self.held.append(connection)
                continue
            if is_livez:
                connection.sendall(http(503 if does == "fail-livez" else 200, {}, "{}"))
            elif does == "answer":
                connection.sendall(http(self.case["status"], self.case["headers"], self.case["body"]))
            connection.close()

    def close(self):
        self.socket.close()
        for connection in self.held:
            connection.close()


def http(status, headers, body):
    lines = [f"HTTP/1.1 {status} X", f"content-length: {len(body.encode())}", "connection: close"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n" + body).encode()
