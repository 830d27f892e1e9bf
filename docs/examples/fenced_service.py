"""A service whose documents a lock protects: it refuses a token that is older than one it has seen.

    fenced_service.py PORT DATABASE    prints its address; PORT 0 takes one that is free

    curl -X PUT -H 'Fencing-Token: 4711' --data 'text' http://127.0.0.1:PORT/report

409: the lock was granted again since. The token stands in the row that it protects and is written by
the same statement, so that no crash comes between the two and no restart forgets it.
"""

import http.server
import sqlite3
import sys
import threading

SCHEMA = """
CREATE TABLE IF NOT EXISTS document (
    name  TEXT PRIMARY KEY,
    token INTEGER NOT NULL,
    body  BLOB -- NULL: deleted; the row stays, as it has the token
)
"""

WRITE = """
INSERT INTO document VALUES (?, ?, ?)
ON CONFLICT (name) DO UPDATE SET token = excluded.token, body = excluded.body
WHERE document.token <= excluded.token
"""


class Documents:
    def __init__(self, path):
        self.lock = threading.Lock()  # one connection for all threads
        self.database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self.database.execute("PRAGMA synchronous = FULL")  # on the disk before it is answered
        self.database.execute(SCHEMA)

    def write(self, name, token, body):
        """Whether it was written: not where a larger token has been seen."""
        with self.lock:
            return self.database.execute(WRITE, (name, token, body)).rowcount == 1

    def read(self, name):
        """The token and the body, None where there never was one."""
        with self.lock:
            query = "SELECT token, body FROM document WHERE name = ?"
            return self.database.execute(query, (name,)).fetchone()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 10  # a caller that sends nothing is left

    def answer(self, status, body, token=None):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if token is not None:
            self.send_header("Fencing-Token", str(token))
        self.end_headers()
        self.wfile.write(body)

    def change(self, body):
        token = self.headers.get("Fencing-Token", "")
        if not (token.isascii() and token.isdigit() and int(token) < 1 << 63):
            return self.answer(428, b"Fencing-Token is missing, or is no token\n")
        if self.server.documents.write(self.path, int(token), body):
            return self.answer(200, b"", token)
        latest, _ = self.server.documents.read(self.path)
        words = f"the lock was granted again: token {token} is older than {latest}\n"
        return self.answer(409, words.encode(), latest)

    def body(self):
        """To its end: what is left of it would be read as the next request of the connection."""
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def do_PUT(self):
        self.change(self.body())

    def do_DELETE(self):
        self.body()
        self.change(None)

    def do_GET(self):
        token, body = self.server.documents.read(self.path) or (None, None)
        if body is None:
            return self.answer(404, b"no such document\n", token)
        return self.answer(200, body, token)

    def log_message(self, *_):
        pass


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
    server.documents = Documents(sys.argv[2])
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
