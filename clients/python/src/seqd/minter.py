"""Decides what may be minted: pure rules on the readings of two clocks, without threads or requests.

Uniqueness depends on the window of the lease alone: every tick is in `[from_tick, fence_tick)`, and
each pair of tick and sequence is used once. The rules about the clock keep IDs in the order of time.
"""

from __future__ import annotations

from typing import NamedTuple, Optional, Tuple

from .layout import Layout

CONFIRM_MS = 5000
"""The time for which a clock that jumped ahead must be steady."""


class Run(NamedTuple):
    """`length` IDs of one tick and worker: `first`, then steps of `step`."""

    first: int
    step: int
    length: int
    worker: int


class Wait(Exception):
    """No ID yet: read the clock again after `ms`."""

    def __init__(self, ms: int) -> None:
        super().__init__(ms)
        self.ms = ms


class Refused(Exception):
    """No ID, and a short wait does not help."""

    def __init__(self, code: str, by_ms: int = 0) -> None:
        super().__init__(code)
        self.code = code
        self.by_ms = by_ms


class Minter:
    """Mints the IDs of one lease after the other. The caller holds a lock around every method."""

    def __init__(
        self,
        max_backward_wait_ms: int = 50,
        max_forward_jump_ms: int = 1000,
        on_rollback: str = "refuse",
    ) -> None:
        self.max_backward_wait_ms = max_backward_wait_ms
        self.max_forward_jump_ms = max_forward_jump_ms
        self.continues = on_rollback == "continue"
        self.layout: Optional[Layout] = None
        self.closed: Optional[str] = None
        """The code of the refusal once nothing is minted any more: `closed` or `forked`."""
        self.worker_id = self.fence = self.from_tick = 0
        # The next slot: its tick, and its sequence. Only the sequence 0 starts a fresh tick.
        self._open = self._used = 0
        self._last: Optional[int] = None
        # The readings in the last tick while it is not full, and its first ID.
        self._begins_ms = self._ends_ms = self._base = self._shift = self._sequences = 0
        # Wall minus monotonic time: of the last trusted reading, and of readings off that line.
        self._line: Optional[int] = None
        self._candidate: Optional[Tuple[int, int]] = None
        self._used_until = 0
        """The start of the last tick that an earlier lease used."""

    def granted(self, layout: Layout, worker_id: int, from_tick: int, fence_tick: int) -> None:
        self.layout, self.worker_id = layout, worker_id
        self.from_tick, self.fence = from_tick, fence_tick
        self._open, self._used, self._last = from_tick, 0, None
        self._shift, self._sequences = layout.sequence_shift, layout.sequences

    def renewed(self, fence_tick: int) -> None:
        self.fence = max(self.fence, fence_tick)

    def ends_ms(self) -> Optional[int]:
        """The end of the window by the wall clock, if there is a lease."""
        return None if self.layout is None else self.layout.wall_at(self.fence)

    def lost(self) -> None:
        """Never mints with this lease again."""
        if self.layout and self._last is not None:
            self._used_until = max(self._used_until, self.layout.wall_at(self._last))
        self.layout, self._ends_ms = None, 0

    def close(self, code: str = "closed") -> Optional[int]:
        """Ends the minting. Returns the tick to release the worker with, if there is a lease."""
        self.closed, self._ends_ms = self.closed or code, 0
        if self.layout is None:
            return None
        return self.from_tick - 1 if self._last is None else self._last

    def read(self, monotonic_ms: int, wall_ms: int) -> None:
        """A reading of the clocks. Raises if it must not be used."""
        if wall_ms < self._used_until:
            self._candidate = None
            by_ms = self._used_until - wall_ms
            if self.continues:
                return
            if by_ms > self.max_backward_wait_ms:
                raise Refused("clock-behind", by_ms)
            raise Wait(by_ms)
        line = wall_ms - monotonic_ms
        ahead = 0 if self._line is None else line - self._line
        near = self.max_forward_jump_ms
        if abs(ahead) > near:
            since = monotonic_ms
            if self._candidate and abs(line - self._candidate[0]) <= near:
                since = self._candidate[1]
            self._candidate = (line, since)
            if monotonic_ms - since < CONFIRM_MS:
                if ahead > 0:
                    raise Refused("clock-jumped", ahead)
                return
        self._line, self._candidate = line, None

    def one(self, wall_ms: int) -> Optional[int]:
        """One ID of the last tick, if the clock is still in it and it is not full. Otherwise `mint`
        decides."""
        if self._begins_ms <= wall_ms < self._ends_ms:
            used = self._used
            if used + 1 == self._sequences:
                self._open, self._used, self._ends_ms = self._open + 1, 0, 0
            else:
                self._used = used + 1
            return self._base + (used << self._shift)
        return None

    def mint(self, monotonic_ms: int, wall_ms: int, count: int) -> Run:
        """Up to `count` IDs of one tick, at least one."""
        line = self._line
        if (line is None or wall_ms - monotonic_ms > line + self.max_forward_jump_ms
                or wall_ms < self._used_until):
            self.read(monotonic_ms, wall_ms)
        layout = self.layout
        if layout is None or self.closed:
            raise Refused(self.closed or "no-lease")
        # The clock is compared with the last tick before anything depends on the new tick.
        tick = (wall_ms - layout.epoch_ms) // layout.tick_ms
        last = self._last
        if last is not None and tick < last:
            tick = self._behind(layout, last, wall_ms)
        elif tick < 0:
            raise Refused("clock-behind", layout.epoch_ms - wall_ms)
        elif tick > layout.max_tick:
            raise Refused("layout-exhausted")
        elif tick < self._open:
            # The last tick is full, or the window begins later.
            if self._open > layout.max_tick:
                raise Refused("layout-exhausted")
            ms = layout.wall_at(self._open) - wall_ms
            if last is None and ms > self.max_backward_wait_ms:
                raise Refused("clock-behind", ms)
            raise Wait(ms)
        if tick >= self.fence:
            raise Refused("window-ended")
        if tick == self._open and self._used:
            first = self._used
        else:
            first = layout.first_of(count, tick == self._open and last is not None)
        count = min(count, layout.sequences - first)
        end = first + count
        base = tick << layout.tick_shift | self.worker_id << layout.worker_shift
        self._last, self._base, self._begins_ms = tick, base, layout.wall_at(tick)
        if end < layout.sequences:
            self._open, self._used = tick, end
            self._ends_ms = self._begins_ms + layout.tick_ms
        else:
            self._open, self._used, self._ends_ms = tick + 1, 0, 0
        step = 1 << layout.sequence_shift
        return Run(base | first << layout.sequence_shift, step, count, self.worker_id)

    def _behind(self, layout: Layout, last: int, wall_ms: int) -> int:
        """The tick to mint in, if the clock is behind the last one."""
        if self.continues:
            if self._open > layout.max_tick:
                raise Refused("layout-exhausted")
            return self._open
        by_ms = layout.wall_at(last) - wall_ms
        if by_ms > self.max_backward_wait_ms:
            raise Refused("clock-behind", by_ms)
        raise Wait(layout.wall_at(self._open) - wall_ms)
