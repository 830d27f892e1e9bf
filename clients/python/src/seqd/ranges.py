"""Values of a segment sequence from memory: the next range is fetched before the current one ends.

The cluster never grants the values of a range again, so no value is returned twice. Unused values
are returned at the end, if no later range was granted to anyone.
"""

from __future__ import annotations

import queue
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any, Deque, List, Optional
from collections import deque

from . import fork
from .errors import Error
from .pace import Pace, is_for_good

if TYPE_CHECKING:
    from .client import Client

MAX_TAKE = 1_000_000
RETURN_AGAIN_S = 0.3


class _Stock:
    """The ranges in memory, and the thread that fetches them."""

    def __init__(self, client: "Client", name: str, size: int) -> None:
        self.client, self.name, self.size = client, name, size
        self.changed = threading.Condition(threading.Lock())
        # A finalizer stops the thread inside any code that allocates, so it takes no lock: `put` is
        # reentrant.
        self.wakes: "queue.SimpleQueue[None]" = queue.SimpleQueue()
        self.ranges: Deque[range] = deque()
        self.waiting = 0
        """The values that calls wait for."""
        self.grant: Optional[str] = None
        """The last grant, which returns unused values."""
        self.after: Optional[str] = None
        """The grant that the next one extends."""
        self.last: Optional[int] = None
        """The last granted value, beyond which the next range must be."""
        self.of_grant = 0
        self.closed: Optional[str] = None
        self.error: Optional[Error] = None

    def held(self) -> int:
        return sum(len(one) for one in self.ranges)

    def is_due(self) -> bool:
        """The next range is fetched once a tenth of the last one is used, or calls wait for it."""
        return self.held() < max(self.size - self.size // 10, self.waiting)

    def keep(self) -> None:
        pace = Pace()
        while not self.closed:
            with self.changed:
                is_due, size, after = self.is_due(), str(self.size), self.after
            if not is_due:
                self.wakes.get()
                continue
            error: Optional[Error] = None
            try:
                self._granted(self.client.call("grant_segment", self.name, size=size, after=after))
                pace.after_success(0)
            except Error as failed:
                error = failed
            except Exception as failed:  # a response of another form must not end the thread
                error = Error("bad-answer", f"the cluster's response cannot be used: {failed!r}")
            with self.changed:
                if error and is_for_good(error) and error.status and self.after:
                    # A restored cluster does not accept the grants of its predecessor.
                    self.after = None
                    continue
                self.error = error
                self.changed.notify_all()
            if error:
                self._pause(pace.after(error))
                if is_for_good(error):
                    self.error = None  # calls wait for the next response

    def _pause(self, pause: float) -> None:
        """Waits for the end of a pause, or of the ranges."""
        until = time.monotonic() + pause
        while not self.closed:
            left = until - time.monotonic()
            if left <= 0:
                return
            try:
                self.wakes.get(timeout=left)
            except queue.Empty:
                return

    def wake(self) -> None:
        """Makes the thread look whether a range is due."""
        if self.wakes.empty():
            self.wakes.put(None)

    def _granted(self, grant: Any) -> None:
        first, last, step = int(grant["first"]), int(grant["last"]), int(grant["increment"])
        with self.changed:
            if self.last is not None and (first - self.last) * step <= 0:
                raise Error("sequence-cycled", f"the sequence {self.name} has cycled: {first} does"
                            f" not follow {self.last}")
            self.ranges.append(range(first, last + (1 if step > 0 else -1), step))
            self.grant = self.after = grant["grant"]
            self.last, self.of_grant = last, grant["count"]
            self.changed.notify_all()

    def stop(self) -> None:
        if not self.closed:
            self.closed = "closed"
            self.wakes.put(None)


class Ranges:
    """Draws values of one segment sequence. Threads may share it."""

    def __init__(self, client: "Client", name: str, size: int = 10_000,
                 patience: float = 5.0) -> None:
        if not 1 <= size <= 100_000_000:
            raise ValueError(f"the size of a range must be 1 to 100000000, not {size}")
        self._stock = _Stock(client, name, size)
        self._patience = patience
        self._thread = threading.Thread(target=self._stock.keep, name="seqd-ranges", daemon=True)
        self._thread.start()
        weakref.finalize(self, self._stock.stop)
        fork.watch(self)

    def _after_fork(self) -> None:
        self._stock.closed = "forked"
        self._stock.ranges = deque()
        self._stock.changed = threading.Condition(threading.Lock())
        self._stock.wakes = queue.SimpleQueue()

    def next(self) -> int:
        """The next value."""
        value = self._take_one()
        return self.take(1)[0] if value is None else value

    def _take_one(self) -> Optional[int]:
        """A value, if no wait is needed."""
        stock = self._stock
        with stock.changed:
            if stock.ranges and not stock.closed:
                current = stock.ranges[0]
                if len(current) > 1:
                    stock.ranges[0] = current[1:]
                    if len(stock.ranges) == 1 and len(current) == stock.size // 10 * 9:
                        stock.wake()
                    return current[0]
        return None

    def take(self, count: int) -> List[int]:
        """`count` values, up to a million, in the direction of the sequence."""
        if not 1 <= count <= MAX_TAKE:
            raise ValueError(f"the count must be 1 to {MAX_TAKE}, not {count}")
        stock = self._stock
        values: List[int] = []
        until = time.monotonic() + self._patience
        with stock.changed:
            # Values stay in stock until there are enough, so that a failed call takes none of them.
            self._wait_for(count, until)
            while len(values) < count:
                current = stock.ranges.popleft()
                missing = count - len(values)
                values.extend(current[:missing])
                if missing < len(current):
                    stock.ranges.appendleft(current[missing:])
        stock.wake()
        return values

    def _wait_for(self, count: int, until: float) -> None:
        """Waits until `count` values are in stock."""
        stock = self._stock
        stock.waiting += count
        stock.wake()
        try:
            while stock.closed or stock.held() < count:
                if stock.closed:
                    hint = "create other ranges here" if stock.closed == "forked" else None
                    raise Error(stock.closed, "the ranges are closed", hint)
                left = until - time.monotonic()
                if left <= 0 or (stock.error and is_for_good(stock.error)):
                    raise stock.error or Error(
                        "no-answer", "no range arrived in time", retryable=True)
                stock.changed.wait(left)
        finally:
            stock.waiting -= count

    def __iter__(self) -> "Ranges":
        return self

    __next__ = next

    def close(self) -> int:
        """Returns unused values to the sequence, and their number. The rest becomes a gap."""
        stock = self._stock
        if stock.closed:
            return 0
        stock.stop()
        with stock.changed:
            stock.changed.notify_all()
        self._thread.join(self._patience)
        with stock.changed:
            unused, of_last = stock.held(), min(stock.held(), stock.of_grant)
            stock.ranges.clear()
        until = time.monotonic() + self._patience
        while stock.grant and unused:
            try:
                answer = stock.client.call("return_segment", stock.name, stock.grant, unused=unused)
                return int(answer["returned"])
            except Error as error:
                stock.error = error
                if is_for_good(error) and error.code != "outcome-unknown":
                    # The range before may belong to another run, which only the cluster can decide.
                    if unused == of_last:
                        return 0
                    unused = of_last
                elif time.monotonic() + RETURN_AGAIN_S > until:
                    return 0
                else:
                    time.sleep(RETURN_AGAIN_S)
        return 0

    def __enter__(self) -> "Ranges":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
