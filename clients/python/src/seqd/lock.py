"""A lock that this process holds: acquired, renewed by a thread, and released.

The holder computes the earliest end of a hold, counted from before the answered request was sent,
by a clock that includes suspended time. From then on the lock is lost, whether or not the cluster
can be reached. The protected resource should check the token nevertheless: a process can be
suspended between the check and the action.
"""

from __future__ import annotations

import secrets
import threading
import time
from typing import TYPE_CHECKING, Any, Dict, Optional

from . import fork
from .errors import Error, LockLost
from .transport import Stop

if TYPE_CHECKING:
    from .client import Client

ROUND_S = 600.0
"""The longest wait of one request that the cluster accepts."""
AGAIN_S = 0.3
LOOK_EVERY_S = 0.1
"""Timers stand still while the machine is suspended, so the clock is read this often."""
LEAST_LIMIT_S = 1.0
"""The shortest timeout of a renewal, and that of the release of a lost lock."""
MOST_REQUESTS = 5
"""Requests of one acquisition whose responses are lost: one per node of a cluster."""
DRIFT = 1000
"""This clock may be slower than the leader's by one part in a thousand, ten times the usual."""

_WORDS = {
    "ran-out": "the lock expired because it was not renewed in time",
    "taken-away": "the cluster reports that the lock is no longer held",
    "released": "the lock is not held: it was released or never acquired",
    "forked": "the lock is held by the process that this one was forked from",
}


def boot_ms() -> int:
    """Milliseconds of a clock that steps do not affect and that, on Linux, includes suspensions."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return int((time.monotonic() if clock is None else time.clock_gettime(clock)) * 1000)


class Hold:
    """How long a hold certainly lasts: pure rules, in milliseconds of one clock."""

    def __init__(self, ttl_ms: int) -> None:
        self.ttl_ms = ttl_ms
        self.until_ms = 0
        self.lost: Optional[str] = None

    def granted(self, sent_ms: int, expires_in_ms: int) -> None:
        """A response to a request that was sent at `sent_ms`."""
        left = min(expires_in_ms, self.ttl_ms)
        self.until_ms = sent_ms + left - -(-left // DRIFT)

    def refused(self, code: str) -> None:
        if code in ("lease-lost", "lock-held"):
            self.lost = self.lost or "taken-away"

    def left_ms(self, now_ms: int) -> int:
        """The time left, or 0 if the lock is lost. It stays lost then."""
        if not self.lost and self.until_ms <= now_ms:
            self.lost = "ran-out"
        return 0 if self.lost else self.until_ms - now_ms


class LostEvent(threading.Event):
    """Is set once the lock is lost, also if the thread that would notice was suspended."""

    def __init__(self, lock: "Lock") -> None:
        super().__init__()
        self._lock = lock

    def is_set(self) -> bool:
        if not super().is_set() and self._lock._lost_reason():
            self.set()
        return super().is_set()

    isSet = is_set

    def wait(self, timeout: Optional[float] = None) -> bool:
        until = None if timeout is None else time.monotonic() + timeout
        while not self.is_set():
            left = LOOK_EVERY_S if until is None else min(LOOK_EVERY_S, until - time.monotonic())
            if left <= 0:
                return False
            super().wait(left)
        return True


class Lock:
    """A lock of the cluster, for one holder at a time. Use it as a context manager.

    `lost` is an Event that is set when the lock is lost; work that depends on the lock must stop.
    """

    def __init__(
        self, client: "Client", name: str, ttl: float = 30.0, wait: Optional[float] = None,
        owner: Optional[str] = None, permits: int = 1, shared: bool = False, lock_delay: float = 0.0,
    ) -> None:
        if not 0.1 <= ttl <= 86400:
            raise ValueError(f"the ttl must be 0.1 to 86400 seconds, not {ttl}")
        self._client, self.name, self._wait = client, name, wait
        self._ttl_ms = int(ttl * 1000)
        self._request: Dict[str, Any] = {
            "owner": owner or client.owner, "ttl_ms": self._ttl_ms, "permits": permits,
            "shared": shared, "lock_delay_ms": int(lock_delay * 1000),
        }
        self._stop = Stop()
        """Is set once nobody waits for `acquire` any more."""
        self._mutex = threading.Lock()
        self._is_busy = False
        """From the beginning of `acquire` to the end of `release`."""
        self._clear()
        self.lost = LostEvent(self)
        fork.watch(self)

    def _clear(self) -> None:
        self._hold = Hold(self._ttl_ms)
        self._token: Optional[int] = None
        self._lease = ""
        self._state: Optional[str] = "released"
        """Why the lock is not held, whatever the hold says."""
        self._ended = threading.Event()
        self._thread: Optional[threading.Thread] = None

    def _after_fork(self) -> None:
        if self._state is None:
            self._state = "forked"
        self._stop, self._mutex, self._is_busy = Stop(), threading.Lock(), False
        self._thread, self._ended, self.lost = None, threading.Event(), LostEvent(self)

    def _lost_reason(self) -> Optional[str]:
        if self._state is None:
            self._hold.left_ms(boot_ms())
        return self._state or self._hold.lost

    @property
    def token(self) -> int:
        """The fencing token, greater than that of every earlier grant of any lock."""
        if self._token is None:
            raise LockLost("released", _WORDS["released"])
        return self._token

    def check(self) -> float:
        """The seconds for which the lock is certainly held. Raises LockLost if it is not."""
        reason = self._lost_reason()
        if reason:
            self.lost.set()
            raise LockLost(reason, _WORDS[reason])
        return (self._hold.until_ms - boot_ms()) / 1000

    def acquire(self) -> "Lock":
        """Waits for the lock, as long as `wait` permits. Raises `lock-held` if another holds it, or
        if this object is in use: it has one holder at a time."""
        with self._mutex:
            if self._is_busy:
                raise in_use(self.name)
            self._is_busy = True
        try:
            self._clear()
            self._wait_for_grant()
        except BaseException:
            self._is_busy = False
            raise
        # Of its own, because a check before the grant has set the former event.
        self._state, self.lost = None, LostEvent(self)
        self._thread = threading.Thread(
            target=_keep, args=(self._client, self.name, self._lease, self._hold, self._ended,
                                self.lost), name="seqd-lock", daemon=True)
        self._thread.start()
        return self

    def _wait_for_grant(self) -> None:
        until = None if self._wait is None else time.monotonic() + self._wait
        nonce = secrets.token_hex(16)
        while True:
            left = ROUND_S if until is None else min(ROUND_S, max(until - time.monotonic(), 0.0))
            try:
                held, sent_ms = self._request_lock(nonce, left)
                if self._confirm(held, sent_ms):
                    return
                nonce = secrets.token_hex(16)
                continue
            except Error as error:
                is_over = self._stop.is_set or until is not None and time.monotonic() >= until
                if error.code == "lock-held":
                    # The wait of one request has ended, and with it the place in the queue.
                    nonce = secrets.token_hex(16)
                if is_over or not _may_pass(error):
                    raise
                if error.code != "lock-held":
                    time.sleep(AGAIN_S)

    def _request_lock(self, nonce: str, wait: float) -> Any:
        until = time.monotonic() + wait
        for request in range(MOST_REQUESTS):
            # A grant whose response was cut off by the stop is found without a wait.
            is_stopped = self._stop.is_set
            left = 0.0 if is_stopped else max(until - time.monotonic(), 0.0)
            stop = None if is_stopped else self._stop
            fields = {**self._request, "nonce": nonce, "wait_ms": int(left * 1000)}
            sent_ms = boot_ms()
            try:
                return self._client.call(
                    "acquire_lock", self.name, wait=left, stop=stop, **fields), sent_ms
            except Error as error:
                # The same nonce finds its place in the queue, or its hold.
                is_last = is_stopped or request + 1 == MOST_REQUESTS
                if error.code != "outcome-unknown" or error.status or is_last:
                    raise
        raise AssertionError("the loop returns or raises")

    def _confirm(self, held: Dict[str, Any], sent_ms: int) -> bool:
        """Takes the grant. After a wait it is renewed first, because the known time is counted from
        before the wait."""
        self._lease, self._token = held["lease"], int(held["token"])
        self._hold.granted(sent_ms, held["expires_in_ms"])
        over_ms = boot_ms() + self._ttl_ms
        while self._hold.until_ms - boot_ms() <= self._ttl_ms / 2:
            try:
                sent_ms = boot_ms()
                renewed = _renew(self._client, self.name, self._lease, self._ttl_ms,
                                 max(self._ttl_ms / 3000, LEAST_LIMIT_S))
                self._hold.granted(sent_ms, renewed["expires_in_ms"])
                break
            except Error as error:
                if _may_pass(error) and error.code != "lock-held" and boot_ms() < over_ms:
                    time.sleep(min(AGAIN_S, self._ttl_ms / 10000))
                    continue
                _release(self._client, self.name, self._lease)
                self._token = None
                if error.code in ("lease-lost", "lock-held") or _may_pass(error):
                    return False
                raise
        return True

    def release(self) -> None:
        """Releases the lock. One that is lost is no error; that of a parent process is left alone."""
        with self._mutex:
            if self._state is not None:
                return
            is_lost = not self._hold.left_ms(boot_ms())
            self._state = "released"
        try:
            self._ended.set()
            self.lost.set()
            if self._thread:
                # A renewal on its way may extend the hold after the release, so it is waited for.
                self._thread.join(self._client.timeout + 1)
            error = _release(self._client, self.name, self._lease, is_lost)
        finally:
            self._is_busy = False
        if error and not is_lost:
            raise error

    def _give_up(self) -> None:
        try:
            self.release()
        except Error:
            pass  # the hold expires

    def __enter__(self) -> "Lock":
        return self.acquire()

    def __exit__(self, kind: Any, *_: Any) -> None:
        try:
            self.release()
        except Error:
            # The hold expires. The error of the work says more.
            if kind is None:
                raise


def in_use(name: str) -> Error:
    return Error("lock-held", f"this object already holds the lock {name}, or waits for it",
                 "create another lock object")


def _may_pass(error: Error) -> bool:
    if error.retryable or error.code == "outcome-unknown":
        return True
    return error.code == "bad-answer" and (error.status or 0) >= 500


def _renew(client: "Client", name: str, lease: str, ttl_ms: int, limit: float) -> Dict[str, Any]:
    return client.call("renew_lock", name, limit=limit, lease=lease, ttl_ms=ttl_ms)


def _release(client: "Client", name: str, lease: str, is_lost: bool = False) -> Optional[Error]:
    """Releases a hold, with a few retries because others wait for it. One that is lost is released
    by one short attempt, because its holder must act on the loss."""
    for attempt in range(1, 6):
        try:
            client.call("release_lock", name, limit=LEAST_LIMIT_S if is_lost else None, lease=lease)
            return None
        except Error as error:
            if error.code in ("lease-lost", "lock-held"):
                return None
            if is_lost or not _may_pass(error) or attempt == 5:
                return error
        time.sleep(LOOK_EVERY_S * attempt)
    return None


def _keep(client: "Client", name: str, lease: str, hold: Hold, ended: threading.Event,
          lost: threading.Event) -> None:
    """Renews the hold when two thirds of its time remain, until it is lost or released."""
    ttl_ms = hold.ttl_ms
    while True:
        due_ms = hold.until_ms - ttl_ms // 3 * 2
        while boot_ms() < due_ms:
            if ended.wait(min(LOOK_EVERY_S, (due_ms - boot_ms()) / 1000 + 0.001)):
                return
        while True:
            sent_ms = boot_ms()
            left_ms = hold.left_ms(sent_ms)
            if ended.is_set() or not left_ms:
                lost.set()
                return
            try:
                limit = min(max(ttl_ms / 3000, LEAST_LIMIT_S), left_ms / 1000)
                renewed = _renew(client, name, lease, ttl_ms, limit)
                # The hold may have run out while the response was on its way.
                if hold.left_ms(boot_ms()):
                    hold.granted(sent_ms, renewed["expires_in_ms"])
                break
            except Error as error:
                hold.refused(error.code)
            except Exception:  # a response of another form must not end the thread
                pass
            if ended.wait(min(ttl_ms / 20000, 1.0)):
                return
