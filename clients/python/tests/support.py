"""What the tests share: the vectors, stub nodes, and the cluster that `clients/run` started."""

import http.server
import json
import os
import pathlib
import socket
import sys
import threading
import unittest
import urllib.parse
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
                connection.sendall(http_text(503 if does == "fail-livez" else 200, {}, "{}"))
            elif does == "answer":
                connection.sendall(http_text(self.case["status"], self.case["headers"], self.case["body"]))
            connection.close()

    def close(self):
        self.socket.close()
        for connection in self.held:
            connection.close()


class Stub:
    """A stub whose responses a function computes: a status and JSON, a text, or CUT."""

    CUT = 200, None
    """A response that ends early."""

    def __init__(self, answer):
        class Handler(http.server.BaseHTTPRequestHandler):
            def handle_one_request(self):
                self.raw_requestline = self.rfile.readline()
                if self.raw_requestline and self.parse_request():
                    self.close_connection = True
                    self.connection.sendall(response(*self.respond()))

            def respond(self):
                self.path, _, query = self.path.partition("?")
                self.query = urllib.parse.parse_qs(query)
                length = int(self.headers.get("content-length") or 0)
                self.body = json.loads(self.rfile.read(length) or "null")
                return (200, {}) if self.path == "/livez" else answer(self)

            def wait_until_gone(self, limit):
                self.connection.settimeout(limit)
                return self.connection.recv(1) == b""

        def response(status, body):
            if body is None:
                return http_text(status, {}, '{"id": "7", "text": "xxxx"}')[:-9]
            return http_text(status, {}, body if isinstance(body, str) else json.dumps(body))

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.handle_error = lambda *_: None
        self.name = "http://127.0.0.1:%d" % self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def http_text(status, headers, body):
    lines = [f"HTTP/1.1 {status} X", f"content-length: {len(body.encode())}", "connection: close"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n" + body).encode()
