"""Sends requests: the endpoints in turn, deadlines, and what is known if no response arrives.

The endpoint of the last good response is tried first. A request that must not be repeated is sent
only to a node that has responded lately, at least to `/livez`, and to no other node after it.
"""

from __future__ import annotations

import functools
import http.client
import io
import json
import re
import select
import socket
import ssl
import threading
import time
from typing import Any, Dict, List, Optional, Tuple
from urllib.parse import urlencode, urlsplit

from . import fork
from .errors import Error, of_problem

GRACE_S = 0.5
"""The time beyond the node's deadline, so that its response about a missed deadline arrives."""
MAX_SERVER_TIMEOUT_S = 30.0
LATELY_S = 10.0
"""The time for which a response counts as a sign of life."""
MAX_ANSWER_BYTES = 64 << 20
"""More than a million values, which is more than any node returns at once."""
MAX_IDLE = 16
"""Idle connections per node: enough for a pool of threads, few for the node."""
PORT = 7400

Answer = Tuple[int, Any]


class NotSent(Exception):
    """No part of the request was processed."""


class _Until(io.RawIOBase):
    """Reads from a socket until a deadline, which the timeout of a socket, one for each read, is not."""

    def __init__(self, sock: socket.socket, raw: io.RawIOBase, until: float) -> None:
        self._sock, self._raw, self._until = sock, raw, until

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> Optional[int]:
        left = self._until - time.monotonic()
        if left <= 0:
            raise socket.timeout("timed out")
        self._sock.settimeout(left)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Response(http.client.HTTPResponse):
    def __init__(self, sock: socket.socket, *args: Any, until: float, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        self.fp = io.BufferedReader(_Until(sock, self.fp.detach(), until))


class Stop:
    """Ends the request of another thread, which then counts as one without a response."""

    def __init__(self) -> None:
        self.is_set = False
        self._lock = threading.Lock()
        self._connection: Optional[http.client.HTTPConnection] = None

    def set(self) -> None:
        with self._lock:
            self.is_set = True
            sock = self._connection and self._connection.sock
            try:
                # Not the method of a TLS socket, which would detach TLS while the other thread reads.
                sock and socket.socket.shutdown(sock, socket.SHUT_RDWR)
            except OSError:
                pass  # the connection has ended

    def watch(self, connection: Optional[http.client.HTTPConnection]) -> None:
        """Sets the connection of the request: None once the request has ended."""
        with self._lock:
            self._connection = connection
            if connection and self.is_set:
                raise OSError("stopped by the caller")


class Endpoint:
    """One node, and its idle connections."""

    def __init__(self, text: str, tls: Optional[ssl.SSLContext], secure: bool) -> None:
        scheme = "https" if secure else "http"
        url = urlsplit(text if "://" in text else f"{scheme}://{text}")
        try:
            self.host, port = url.hostname, url.port
        except ValueError:
            self.host, port = None, None
        rest = url.path.strip("/") or url.query or url.fragment or url.username
        if url.scheme not in ("http", "https") or not self.host or rest:
            raise ValueError(f"{text!r} is not an endpoint: use HOST, HOST:PORT or a URL without a path")
        self.port = PORT if port is None else port
        self.tls = tls if url.scheme == "https" else None
        self.name = f"{self.host}:{self.port}"
        self.idle: List[http.client.HTTPConnection] = []
        self.answered: Optional[float] = None

    def open(self, until: float) -> http.client.HTTPConnection:
        """An idle connection that the node has not closed, or a new one, with the rest of the time
        as its timeout."""
        connection = self._idle() or self._new(until)
        left = until - time.monotonic()
        if left <= 0:
            connection.close()
            raise NotSent("timed out")
        connection.sock.settimeout(left)
        return connection

    def _idle(self) -> Optional[http.client.HTTPConnection]:
        while self.idle:
            try:
                connection = self.idle.pop()
            except IndexError:  # another thread took it
                break
            if _is_open(connection.sock):
                return connection
            connection.close()
        return None

    def _new(self, until: float) -> http.client.HTTPConnection:
        assert self.host
        left = until - time.monotonic()
        if left <= 0:
            raise NotSent("timed out")
        if self.tls:
            connection = http.client.HTTPSConnection(
                self.host, self.port, timeout=left, context=self.tls)
        else:
            connection = http.client.HTTPConnection(self.host, self.port, timeout=left)
        try:
            connection.connect()
        except OSError as error:
            connection.close()
            raise NotSent(_reason(error)) from None
        return connection

    def exchange(
        self, method: str, target: str, body: Optional[bytes], headers: Dict[str, str], limit: float,
        stop: Optional[Stop] = None,
    ) -> Tuple[int, bytes]:
        """One request and its response. Raises NotSent, or OSError if no response arrived."""
        until = time.monotonic() + limit
        connection = self.open(until)
        connection.response_class = functools.partial(_Response, until=until)
        try:
            if stop:
                stop.watch(connection)
            connection.request(method, target, body, headers)
            response = connection.getresponse()
            chunks, size = [], 0
            while size <= MAX_ANSWER_BYTES:
                chunk = response.read(1 << 16)
                if not chunk:
                    if response.length:  # `read` reports no end before the announced length
                        raise OSError("the response ended early")
                    break
                chunks.append(chunk)
                size += len(chunk)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            if isinstance(error, ssl.SSLError) and "CERTIFICATE" in (error.reason or ""):
                # A node that rejects the certificate of this client has processed nothing.
                raise NotSent(_reason(error)) from None
            raise OSError(_reason(error)) from None
        finally:
            if stop:
                stop.watch(None)
        if response.isclosed() and not response.will_close and len(self.idle) < MAX_IDLE:
            self.idle.append(connection)
        else:
            connection.close()
        return response.status, b"".join(chunks)


def _is_open(sock: Optional[socket.socket]) -> bool:
    """Whether nothing arrived on an idle connection: no end, no stray byte."""
    if sock is None:
        return False
    try:
        if hasattr(select, "poll"):
            poll = select.poll()
            poll.register(sock, select.POLLIN)
            return not poll.poll(0)
        return not select.select([sock], [], [], 0)[0]
    except (OSError, ValueError):
        return False


def _reason(error: BaseException) -> str:
    if isinstance(error, socket.timeout):
        return "timed out"
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return text.lower() if isinstance(error, OSError) else text


class Transport:
    """The endpoints of one cluster. Threads may share it."""

    def __init__(
        self, endpoints: List[str], token: Optional[str], timeout: float,
        tls: Optional[ssl.SSLContext], secure: bool,
    ) -> None:
        if not endpoints:
            raise ValueError("no endpoints are given")
        if timeout <= 0:
            raise ValueError(f"the timeout must be above 0 seconds, not {timeout}")
        if token is not None and not re.fullmatch(r"[!-~]+", token):
            raise ValueError("a token has printable ASCII characters only, and this one has others:"
                             " remove the line break of a file with strip()")
        self.endpoints = [Endpoint(text, tls, secure) for text in endpoints]
        self.token = token
        self.whole = timeout + GRACE_S
        self.good: Optional[Endpoint] = None
        fork.watch(self)

    def _after_fork(self) -> None:
        # The sockets belong to the parent. Only the copies of the child are closed: without a word
        # to the node.
        for endpoint in self.endpoints:
            endpoint.answered = None
        self.close()

    def close(self) -> None:
        for endpoint in self.endpoints:
            idle, endpoint.idle = endpoint.idle, []
            for connection in idle:
                connection.close()

    def send(
        self,
        method: str,
        path: str,
        query: Optional[Dict[str, Any]] = None,
        body: Any = None,
        *,
        repeatable: bool,
        wait: float = 0.0,
        limit: Optional[float] = None,
        headers: Optional[Dict[str, str]] = None,
        stop: Optional[Stop] = None,
    ) -> Answer:
        """The status and the JSON of the response. `wait` is how long the node may wait before it
        responds, and `limit` the longest time of all attempts. `stop` ends the request early."""
        whole = min(self.whole, limit) if limit is not None else self.whole
        until = time.monotonic() + whole + wait
        order = [e for e in [self.good] if e] + [e for e in self.endpoints if e is not self.good]
        problem: Optional[Error] = None
        attempts: List[str] = []
        was_sent = False
        for tried, endpoint in enumerate(order):
            left = len(order) - tried
            rest = until - time.monotonic()
            if rest <= 0:
                break
            try:
                if not repeatable or (wait and left > 1):
                    self._sign_of_life(endpoint, _spare(rest, wait) / (left + 1))
                    rest = until - time.monotonic()
                spare = _spare(rest, wait)
                share = rest - spare + spare / left if repeatable else rest
                target = self._target(path, query, share - wait, whole)
                return self._one(endpoint, method, target, body, headers, share, repeatable, stop)
            except NotSent as error:
                self._was_silent(endpoint)
                attempts.append(f"{endpoint.name} ({error})")
            except OSError as error:
                self._was_silent(endpoint)
                if not repeatable:
                    raise _unknown(endpoint, str(error)) from None
                attempts.append(f"{endpoint.name} ({error})")
                was_sent = True
            except Error as error:
                if _is_not_processed(endpoint, error):
                    self._was_silent(endpoint)
                    problem = problem or error
                    continue
                # The holder of a lock is the same on all nodes.
                if not error.retryable or error.code == "lock-held":
                    raise
                problem = error
        if problem:
            raise problem
        tried_all = ", ".join(attempts)
        if was_sent:
            raise Error("no-answer", f"no response: {tried_all}", retryable=True)
        hint = "is a node running there? set the endpoints, or SEQD_ENDPOINTS"
        if "ssl" in tried_all or "certificate" in tried_all:
            hint = "a node was reached, but TLS failed: set cacert (SEQD_CACERT), or use http://"
        raise Error("unreachable", f"no node could be reached: {tried_all}", hint, True)

    def _one(
        self, endpoint: Endpoint, method: str, target: str, body: Any,
        headers: Optional[Dict[str, str]], limit: float, repeatable: bool, stop: Optional[Stop],
    ) -> Answer:
        sent = {"accept": "application/json, application/problem+json", **(headers or {})}
        if self.token:
            sent["authorization"] = f"Bearer {self.token}"
        data = None
        if body is not None:
            data = _json(body)
            sent["content-type"] = "application/json"
        status, text = endpoint.exchange(method, target, data, sent, limit, stop)
        endpoint.answered = time.monotonic()
        if status < 500:
            self.good = endpoint
        elif self.good is endpoint:
            self.good = None
        try:
            answer = json.loads(text)
            if 200 <= status < 300:
                return status, answer
            raise of_problem(status, answer)
        except (ValueError, KeyError, TypeError):
            if status >= 500 and not repeatable:
                # An intermediary may have forwarded the request before it failed.
                raise _unknown(endpoint, f"status {status}") from None
            raise Error("bad-answer", f"{endpoint.name} returned status {status}, and the response is"
                        f" not from seqd: it begins with {text[:120]!r}", status=status) from None

    def _target(
        self, path: str, query: Optional[Dict[str, Any]], share: float, whole: float
    ) -> str:
        share = min(max(share, 0.0), whole)
        deadline = min(max(share - GRACE_S, share / 2), MAX_SERVER_TIMEOUT_S)
        fields = {key: _text(value) for key, value in (query or {}).items() if value is not None}
        if path.startswith("/v1/"):
            fields["timeout_ms"] = str(max(int(deadline * 1000), 1))
        return f"{path}?{urlencode(fields)}" if fields else path

    def _sign_of_life(self, endpoint: Endpoint, limit: float) -> None:
        if endpoint.answered is not None and time.monotonic() - endpoint.answered < LATELY_S:
            return
        try:
            status, _ = endpoint.exchange("GET", "/livez", None, {}, limit)
        except OSError as error:
            raise NotSent(f"/livez {error}") from None
        if status >= 500:  # a proxy that cannot reach the node
            raise NotSent(f"status {status} for /livez")
        endpoint.answered = time.monotonic()

    def _was_silent(self, endpoint: Endpoint) -> None:
        endpoint.answered = None
        if self.good is endpoint:
            self.good = None


def _spare(rest: float, wait: float) -> float:
    """The time that is divided by the endpoints: without the wait, if that can still be served."""
    return rest - wait if rest > wait else rest


def _is_not_processed(endpoint: Endpoint, error: Error) -> bool:
    """Returns whether a port with TLS rejected a request without TLS, before it was read."""
    return (endpoint.tls is None and error.status == 400
            and error.problem.get("tls_required") is True)


def _json(body: Any) -> bytes:
    """The shortest form, because the size of a result is limited."""
    try:
        return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can only write as an escape
        return json.dumps(body, separators=(",", ":")).encode()


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _unknown(endpoint: Endpoint, reason: str) -> Error:
    return Error("outcome-unknown", f"the request was sent to {endpoint.name} and got no response"
                 f" ({reason}); it may have taken effect")
