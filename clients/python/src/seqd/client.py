"""The client of one cluster."""

from __future__ import annotations

import inspect
import os
import secrets
import socket
import ssl
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, TypeVar, Union, overload
from urllib.parse import quote

from . import once as _once
from .errors import Error
from .lock import Lock
from .operations import Operations
from .ranges import Ranges
from .routes import ROUTES
from .transport import Stop, Transport

T = TypeVar("T")


class Client(Operations):
    """Sends requests to a cluster. Threads may share it; it survives a fork.

    `endpoints` is a list, or a text with commas, of HOST, HOST:PORT or URLs; SEQD_ENDPOINTS if it
    is left out, and 127.0.0.1:7400 without that. The endpoints of one request share its `timeout` in
    seconds. `token` is SEQD_TOKEN by default, or the text of the file SEQD_TOKEN_FILE. `cacert`,
    `cert` and `key` are PEM files; with one of them, `https` is the default scheme.
    """

    def __init__(
        self,
        endpoints: Union[str, Sequence[str], None] = None,
        token: Optional[str] = None,
        timeout: float = 3,
        *,
        cacert: Optional[str] = None,
        cert: Optional[str] = None,
        key: Optional[str] = None,
        owner: Optional[str] = None,
    ) -> None:
        if endpoints is None:
            endpoints = os.environ.get("SEQD_ENDPOINTS") or "127.0.0.1:7400"
        if isinstance(endpoints, str):
            endpoints = endpoints.split(",")
        listed = [text.strip() for text in endpoints if text.strip()]
        cacert = cacert or os.environ.get("SEQD_CACERT") or None
        cert = cert or os.environ.get("SEQD_CERT") or None
        key = key or os.environ.get("SEQD_KEY") or None
        secure = bool(cacert or cert)
        self.timeout = timeout
        self.owner = owner or f"{socket.gethostname()}-{os.getpid()}"
        tls: Optional[ssl.SSLContext] = None
        if secure or any(text.startswith("https:") for text in listed):
            tls = _tls(cacert, cert, key)
        self._transport = Transport(listed, token or _token(), timeout, tls, secure)

    def call(
        self, operation: str, *path: Any, wait: float = 0.0, limit: Optional[float] = None,
        idempotency_key: Optional[str] = None, if_match: Optional[str] = None, dry_run: bool = False,
        stop: Optional[Stop] = None, **fields: Any,
    ) -> Any:
        """Any operation of the table in `seqd.routes`, with its path parameters and fields. Fields
        that are None are left out. `limit` is the longest time of all attempts in seconds. `stop`
        ends the request from another thread."""
        route = ROUTES[operation]
        target = route.path
        for part in path:
            before, _, rest = target.partition("{")
            target = before + quote(str(part), safe="") + rest.partition("}")[2]
        query = {name: fields.pop(name) for name in route.query.split() if name in fields}
        if dry_run:
            query["dry_run"] = 1
        if route.repeat == "with-nonce" and fields.get("nonce") is None:
            fields["nonce"] = secrets.token_hex(16)
        body = {k: v for k, v in fields.items() if v is not None or k == "result"}
        unknown = set(body) - set(route.body.split())
        if unknown:
            raise TypeError(f"{operation} has no field {sorted(unknown)[0]!r}")
        headers: Dict[str, str] = {}
        if idempotency_key is not None:
            headers["idempotency-key"] = idempotency_key
        if if_match is not None:
            headers["if-match"] = if_match
        _, answer = self._transport.send(
            route.method, target, query, body if route.body else None,
            repeatable=route.repeat != "never" or idempotency_key is not None,
            wait=wait, limit=limit, headers=headers, stop=stop)
        return answer

    def id(self, layout: Optional[str] = None) -> int:
        """One snowflake ID, minted by the answering node."""
        return int(self.call("id", layout=layout)["id"])

    def ids(self, count: int, layout: Optional[str] = None) -> List[int]:
        """`count` IDs, 1 to 10,000, increasing, minted by the answering node."""
        return [int(id) for id in self.call("ids", count=count, layout=layout)["ids"]]

    @overload
    def next(self, name: str, count: None = None, *, key: Optional[str] = None) -> int: ...

    @overload
    def next(self, name: str, count: int, *, key: Optional[str] = None) -> List[int]: ...

    def next(
        self, name: str, count: Optional[int] = None, *, key: Optional[str] = None
    ) -> Union[int, List[int]]:
        """The next value of a sequence, or with `count` a list of values.

        Without `key`, a lost response is `outcome-unknown` and may cost values. With `key`, an
        idempotency key of your own, the request is repeated and returns the same values."""
        answer = self.call("next", name, count=1 if count is None else count, idempotency_key=key)
        step = int(answer["increment"])
        values: List[int] = []
        for run in answer["ranges"]:
            values.extend(range(int(run["first"]), int(run["first"]) + step * run["count"], step))
        return values[0] if count is None else values

    def ranges(self, name: str, size: int = 10_000, *, patience: float = 5.0) -> Ranges:
        """Values of a segment sequence from memory, `size` per request."""
        return Ranges(self, name, size, patience)

    def lock(
        self, name: str, ttl: float = 30.0, wait: Optional[float] = None,
        owner: Optional[str] = None, *, permits: int = 1, shared: bool = False,
        lock_delay: float = 0.0,
    ) -> Lock:
        """A lock, not yet acquired. It lasts `ttl` seconds and is renewed at a third of them.
        `wait` is how long to wait for it in seconds: without a limit by default, 0 for at once."""
        return Lock(self, name, ttl, wait, owner, permits, shared, lock_delay)

    def once(
        self, key: str, work: Callable[..., T], ttl: float = 86400.0, wait: float = 60.0, *,
        claim_ttl: float = 60.0, fingerprint: str = "",
    ) -> T:
        """Performs `work` unless it was already performed for this key, and returns its result to
        all callers: JSON of at most 16 KiB, as `json` writes and reads it. If it is something
        else, all callers get `not-kept`. Work with a parameter that has no default receives a `Turn`.

        `ttl` is how long the result is kept, `wait` how long to wait for another caller that
        performs the work, `claim_ttl` the longest time of the work: then another caller begins."""
        if inspect.iscoroutinefunction(work):
            raise TypeError("the work is an async function: use seqd.aio.Client.once")
        turn, claim, result = _once.begin(
            self, key, ttl, claim_ttl, fingerprint, time.monotonic() + wait)
        if turn is None:
            return result
        try:
            value = work(*_once.arguments(work, turn))
        except BaseException:
            _once.abandon(self, key, claim)
            raise
        return _once.complete(self, key, claim, value)

    def close(self) -> None:
        """Closes idle connections."""
        self._transport.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def _token() -> Optional[str]:
    file = os.environ.get("SEQD_TOKEN_FILE")
    token = os.environ.get("SEQD_TOKEN")
    if token or not file:
        return token or None
    try:
        with open(file, encoding="utf-8") as opened:
            return opened.read().strip()
    except (OSError, UnicodeError) as error:
        raise ValueError(f"SEQD_TOKEN_FILE: {file} cannot be read: {error}") from None


def _tls(cacert: Optional[str], cert: Optional[str], key: Optional[str]) -> ssl.SSLContext:
    try:
        tls = ssl.create_default_context(cafile=cacert)
    except OSError as error:
        raise ValueError(f"the CA file {cacert} cannot be used: {error}") from error
    if cert:
        try:
            tls.load_cert_chain(cert, key)
        except OSError as error:
            raise ValueError(f"the certificate {cert} with the key {key} cannot be used: {error}"
                             ) from error
    return tls


__all__ = ["Client", "Error"]
