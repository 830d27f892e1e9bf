"""Mints IDs in this process with a worker that the cluster has leased to it.

A thread takes the lease, renews it at a third of its window, and takes another one if it is lost. A
call sends no request. While the lease cannot be renewed, minting continues up to the fence and is
then refused.
"""

from __future__ import annotations

import queue
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any, Callable, Dict, List, NamedTuple, Optional

from . import fork
from .errors import Error
from .layout import Layout
from .minter import Minter, Refused, Run, Wait
from .pace import Pace, is_for_good

if TYPE_CHECKING:
    from .client import Client

MAX_COUNT = 100_000
"""The most IDs per call: 25 ms of the layout `default`."""
READ_EVERY_S = 1.0
"""The clock is read at least this often, so that jumps are noticed."""
LEAST_RENEW_S = 0.25
RELEASE_AGAIN_S = 0.3
FRESH_S = 1.0
"""The time within which a renewal counts as recent."""

_WORDS = {
    "no-lease": "there is no worker lease yet",
    "window-ended": "the window of the lease has ended",
    "clock-behind": "the wall clock is {by_ms} ms behind",
    "clock-jumped": "the wall clock jumped {by_ms} ms ahead; it is trusted after 5 steady seconds",
    "clock-ahead": "the wall clock is past the new window by {by_ms} ms: it is ahead of the cluster's",
    "layout-exhausted": "the layout has no ticks left",
    "closed": "the generator is closed",
    "forked": "this process is a fork of the one that created the generator",
}


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


class GeneratorStatus(NamedTuple):
    """The current state of a generator, for a health check."""

    worker: Optional[int]
    """The whole worker field of the current lease, if there is one."""
    window_ends: Optional[float]
    """The end of its window by the wall clock, as `time.time()` counts."""
    leases: int
    """The number of leases since the start; above one if a lease was lost."""
    error: Optional[Error]
    """Why the last attempt to take or renew a lease failed."""


class _Core:
    """What the thread shares with the generator. The generator's end stops the thread."""

    def __init__(self, client: "Client", request: Dict[str, Any], minter: Minter,
                 wall_ms: Callable[[], int]) -> None:
        self.client, self.request, self.minter, self.wall_ms = client, request, minter, wall_ms
        self.mutex = threading.Lock()  # held for arithmetic, never during a request
        self.attempted = threading.Condition(self.mutex)
        # A finalizer stops the thread inside any code that allocates, so it takes no lock: `put` is
        # reentrant.
        self.wakes: "queue.SimpleQueue[None]" = queue.SimpleQueue()
        self.is_woken = self.is_stopped = False
        self.attempts = self.leases = 0
        self.last_attempt = 0.0
        self.lease: Optional[Dict[str, Any]] = None
        self.error: Optional[Error] = None
        self.renew_after_s = 0.0

    def path(self, lease: Dict[str, Any]) -> List[Any]:
        return [self.request["layout"], lease["id"]]

    def keep(self) -> None:
        pace = Pace()
        while not self.is_stopped:
            error: Optional[Error] = None
            try:
                self._attempt()
                wait = pace.after_success(self.renew_after_s)
            except Error as failed:
                error, wait = failed, pace.after(failed)
            except Exception as failed:  # a response of another form must not end the thread
                error = Error("bad-answer", f"the cluster's response cannot be used: {failed!r}")
                wait = pace.after(error)
            with self.mutex:
                self.error, self.attempts = error, self.attempts + 1
                self.last_attempt, self.is_woken = time.monotonic(), False
                self.attempted.notify_all()
            self._rest(wait, error is not None)

    def _rest(self, wait: float, failed: bool) -> None:
        """Reads the clock until the next attempt is due. A call that finds the window ended makes
        it due a second after the last one, unless that failed."""
        began = time.monotonic()
        while not self.is_stopped:
            with self.mutex:
                try:
                    self.minter.read(time.monotonic_ns() // 1_000_000, self.wall_ms())
                except (Refused, Wait):
                    pass
            if self.is_woken and not failed:
                wait = min(wait, 1.0)
            left = began + wait - time.monotonic()
            if left <= 0:
                return
            try:
                self.wakes.get(timeout=min(left, READ_EVERY_S))
            except queue.Empty:
                pass

    def wake(self) -> None:
        """Makes the next attempt due early. The caller holds the mutex."""
        if not self.is_woken:
            self.is_woken = True
            self.wakes.put(None)

    def _attempt(self) -> None:
        lease = self.lease
        if lease is not None:
            try:
                self._renew(lease)
                return
            except Error as error:
                if error.code != "lease-lost":
                    raise
            with self.mutex:
                self.minter.lost()
                self.lease = None
        self._take()

    def _renew(self, lease: Dict[str, Any]) -> None:
        fields = {"owner": self.request["owner"], "lease": lease["lease"]}
        limit = max(self.renew_after_s, 1.0)
        renewed = self.client.call("renew_worker", *self.path(lease), limit=limit, **fields)
        if renewed["lease"] != lease["lease"] or renewed["id"] != lease["id"]:
            raise Error("bad-answer", "the renewal is for another lease")
        with self.mutex:
            self.minter.renewed(int(renewed["fence_tick"]))
        self.renew_after_s = max(renewed["renew_after_ms"] / 1000, LEAST_RENEW_S)

    def _take(self) -> None:
        lease = self.client.call("lease_worker", **self.request)
        try:
            layout = Layout(lease["layout"])
        except Error:
            # Nothing was minted or will be.
            self.release(lease, int(lease["from_tick"]) - 1)
            raise
        self.renew_after_s = max(lease["renew_after_ms"] / 1000, LEAST_RENEW_S)
        with self.mutex:
            self.lease, self.leases = lease, self.leases + 1
            self.minter.granted(
                layout, lease["id"], int(lease["from_tick"]), int(lease["fence_tick"]))

    def release(self, lease: Dict[str, Any], last_tick: int) -> None:
        fields = {"owner": self.request["owner"], "lease": lease["lease"], "last_tick": last_tick}
        self.client.call("release_worker", *self.path(lease), **fields)

    def stop(self) -> None:
        self.is_stopped = True
        self.wakes.put(None)

    def ahead_ms(self, wall_ms: int) -> Optional[int]:
        """How far the wall clock is past a window that was renewed a moment ago, and that has not
        ended by the cluster's clock. The caller holds the mutex."""
        age = time.monotonic() - self.last_attempt
        ends_ms = self.minter.ends_ms()
        if not self.attempts or self.error or age >= FRESH_S or ends_ms is None:
            return None
        return wall_ms - ends_ms if wall_ms >= ends_ms else None


class IdGenerator:
    """Mints IDs of one layout under a worker lease. Threads may share it.

    Use it as a context manager, or call `close`, so that the worker is free at once. A child of a
    fork must create its own: the copy of its parent's refuses (`forked`).
    """

    def __init__(
        self,
        client: "Client",
        owner: str,
        layout: str = "default",
        *,
        datacenter: Optional[int] = None,
        patience: float = 5.0,
        on_rollback: str = "refuse",
        wall_ms: Callable[[], int] = _wall_ms,
    ) -> None:
        """`patience` is how long a call waits for a tick, a lease or a free worker, in seconds.
        `on_rollback="continue"` mints in logical time, inside the window, after a clock step."""
        if not 1 <= len(owner.encode()) <= 255 or not owner.isprintable():
            raise ValueError(f"{owner!r} is not an owner: it has 1 to 255 printable bytes")
        if on_rollback not in ("refuse", "continue"):
            raise ValueError(f"on_rollback is refuse or continue, not {on_rollback!r}")
        request = {"layout": layout, "owner": owner, "datacenter": datacenter}
        self._minter = Minter(on_rollback=on_rollback)
        self._core = _Core(client, request, self._minter, wall_ms)
        self._mutex, self._wall_ms = self._core.mutex, wall_ms
        self._patience = patience
        self._thread = threading.Thread(target=self._core.keep, name="seqd-worker", daemon=True)
        self._thread.start()
        # A generator that is dropped renews no more: its worker is free after the window.
        weakref.finalize(self, self._core.stop)
        fork.watch(self)

    def _after_fork(self) -> None:
        self._minter.close("forked")
        self._core.lease = None
        self._mutex = self._core.mutex = threading.Lock()
        self._core.attempted = threading.Condition(self._mutex)
        # A thread that does not exist here may have been in the queue.
        self._core.wakes = queue.SimpleQueue()

    def id(self) -> int:
        """One ID."""
        try:
            return self._mint_one()
        except (Refused, Wait):
            return self._run(1, time.monotonic() + self._patience).first

    def _mint_one(self) -> int:
        with self._mutex:
            wall_ms = self._wall_ms()
            id = self._minter.one(wall_ms)
            if id is None:
                id = self._minter.mint(time.monotonic_ns() // 1_000_000, wall_ms, 1).first
            return id

    def ids(self, count: int) -> List[int]:
        """`count` IDs, up to 100,000, increasing and of one worker."""
        if not 1 <= count <= MAX_COUNT:
            raise ValueError(f"the count must be 1 to {MAX_COUNT}, not {count}")
        until = time.monotonic() + self._patience
        ids: List[int] = []
        worker: Optional[int] = None
        while len(ids) < count:
            run = self._run(count - len(ids), until)
            if run.worker != worker:
                # IDs of two leases need not increase: the earlier ones are skipped.
                ids, worker = [], run.worker
            ids.extend(range(run.first, run.first + run.length * run.step, run.step))
        return ids

    def ready(self) -> None:
        """Waits until an ID can be minted. Skips one."""
        self.id()

    def status(self) -> GeneratorStatus:
        """The current state, for a health check."""
        core = self._core
        with self._mutex:
            ends_ms = None if self._minter.closed else self._minter.ends_ms()
            worker = None if ends_ms is None else self._minter.worker_id
            window_ends = None if ends_ms is None else ends_ms / 1000
            return GeneratorStatus(worker, window_ends, core.leases, core.error)

    @property
    def worker(self) -> Optional[int]:
        """The whole worker field of the current lease."""
        lease = self._core.lease
        return lease["id"] if lease else None

    @property
    def error(self) -> Optional[Error]:
        """Why the last attempt to take or renew a lease failed."""
        return self._core.error

    def _run(self, count: int, until: float) -> Run:
        core = self._core
        while True:
            with self._mutex:
                seen, wall_ms = core.attempts, self._wall_ms()
                try:
                    return self._minter.mint(time.monotonic_ns() // 1_000_000, wall_ms, count)
                except Wait as wait:
                    ms = wait.ms
                except Refused as refused:
                    if refused.code not in ("no-lease", "window-ended"):
                        raise self._error(refused) from None
                    ahead_ms = core.ahead_ms(wall_ms)
                    if refused.code == "window-ended" and ahead_ms is not None:
                        raise self._error(Refused("clock-ahead", ahead_ms)) from None
                    left = until - time.monotonic()
                    if left <= 0 or (core.error and is_for_good(core.error)):
                        raise self._error(refused) from None
                    core.wake()
                    core.attempted.wait_for(
                        lambda: core.attempts != seen or bool(self._minter.closed), left)
                    continue
            if time.monotonic() + ms / 1000 > until:
                raise Error("busy", f"the ticks of the worker are used up; the next begins in {ms} ms",
                            retryable=True)
            # A tick of a millisecond has often begun before a sleep of its rest returns.
            time.sleep(ms / 1000 if ms > 1 else 0.0002)

    def _error(self, refused: Refused) -> Error:
        words = _WORDS[refused.code].format(by_ms=refused.by_ms)
        why = self._core.error
        hint = "create another generator in this process" if refused.code == "forked" else None
        if refused.code in ("no-lease", "window-ended") and why:
            if is_for_good(why) or why.code == "workers-exhausted":
                return why
            words += f": {why}"
        return Error(refused.code, words, hint,
                     refused.code not in ("closed", "forked", "layout-exhausted"))

    def close(self) -> bool:
        """Permanently ends the minting, then releases the worker with its last tick. Returns whether
        that was confirmed; otherwise the worker stays taken until its window ends."""
        core = self._core
        with self._mutex:
            last_tick = self._minter.close()
            core.attempted.notify_all()
        if self._minter.closed == "forked":
            return True  # the lease belongs to the parent
        core.stop()
        until = time.monotonic() + self._patience
        self._thread.join(self._patience)
        if core.lease is None:
            return not self._thread.is_alive()
        with self._mutex:
            last_tick = self._minter.close()  # the thread may have taken another lease
            lease, minted = core.lease, last_tick
        while lease is not None and minted is not None:
            try:
                core.release(lease, minted)
                break
            except Error as error:
                if error.code == "lease-lost":
                    break
                if is_for_good(error) or time.monotonic() + RELEASE_AGAIN_S > until:
                    core.error = error
                    return False
            time.sleep(RELEASE_AGAIN_S)
        core.lease = None
        return True

    def __enter__(self) -> "IdGenerator":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
