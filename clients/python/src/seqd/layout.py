"""Layouts: how tick, worker and sequence share the bits of an ID, and the texts of IDs."""

from __future__ import annotations

import random
from typing import Any, Dict, NamedTuple, Optional

from .errors import Error

_BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_FORMS = {"dec": ("0123456789", 1), "hex": ("0123456789abcdef", 1), "b62": (_BASE62, 11),
          "crockford": (_CROCKFORD, 13)}


def encode(id: int, format: str = "b62") -> str:
    """The text of an ID: `dec`, `hex`, `b62` or `crockford`."""
    digits, width = _FORMS[format]
    text = ""
    while id:
        id, digit = divmod(id, len(digits))
        text = digits[digit] + text
    return text.rjust(width, "0")


def decode(text: str, format: str = "dec") -> int:
    """The ID of a text. Crockford's I, L and O are read as 1, 1 and 0, in upper or lower case."""
    digits, _ = _FORMS[format]
    if format == "crockford":
        text = text.upper().translate(str.maketrans("ILO", "110"))
    elif format == "hex":
        text = text.lower()
    id = 0
    for one in text:
        digit = digits.find(one)
        if digit < 0:
            raise ValueError(f"{text!r} is not an ID in {format}: it has the character {one!r}")
        id = id * len(digits) + digit
    if not text or id >> 64:
        raise ValueError(f"{text!r} is not an ID in {format}: an ID has 1 to 64 bits")
    return id


class Parts(NamedTuple):
    tick: int
    worker_id: int
    """The whole field, datacenter bits included."""
    datacenter: Optional[int]
    worker: int
    sequence: int
    unix_ms: int


class Layout:
    """One layout, from its definition in a lease."""

    def __init__(self, definition: Dict[str, Any]) -> None:
        self.name: str = definition["name"]
        self.epoch_ms: int = definition["epoch_ms"]
        self.tick_ms: int = definition["tick_ms"]
        self.sequence_bits: int = definition["sequence_bits"]
        self.low_worker_bits: int = definition["worker_bits"]
        self.datacenter_bits: int = definition["datacenter_bits"]
        self.worker_bits = self.low_worker_bits + self.datacenter_bits
        self.order: str = definition["order"]
        self.first_sequence: str = definition["first_sequence"]
        self.sequences = 1 << self.sequence_bits
        self.max_tick = (1 << definition["time_bits"]) - 1
        first = self.first_sequence
        is_known = first in ("zero", "spread") or first.startswith("random:")
        if self.order not in ("tick-worker-sequence", "tick-sequence-worker") or not is_known:
            raise Error("unknown-layout", f"layout {self.name} has the order {self.order} and the first"
                        f" sequence {first}, which this version does not support")
        worker_first = self.order == "tick-worker-sequence"
        self.tick_shift = self.worker_bits + self.sequence_bits
        self.worker_shift = self.sequence_bits if worker_first else 0
        self.sequence_shift = 0 if worker_first else self.worker_bits

    def tick_at(self, unix_ms: int) -> int:
        """The tick of a time; below 0 before the epoch, and above `max_tick` after the end."""
        return (unix_ms - self.epoch_ms) // self.tick_ms

    def wall_at(self, tick: int) -> int:
        return self.epoch_ms + tick * self.tick_ms

    def pack(self, tick: int, worker_id: int, sequence: int) -> int:
        return (tick << self.tick_shift | worker_id << self.worker_shift
                | sequence << self.sequence_shift)

    def unpack(self, id: int) -> Parts:
        worker_id = (id >> self.worker_shift) & ((1 << self.worker_bits) - 1)
        tick = id >> self.tick_shift
        return Parts(
            tick,
            worker_id,
            worker_id >> self.low_worker_bits if self.datacenter_bits else None,
            worker_id & ((1 << self.low_worker_bits) - 1),
            (id >> self.sequence_shift) & (self.sequences - 1),
            self.wall_at(tick),
        )

    def first_of(self, count: int, after_full: bool) -> int:
        """The first sequence of a batch in a fresh tick. Any choice is right: random ones spread
        over shards."""
        if self.first_sequence == "zero" or (self.first_sequence == "spread" and after_full):
            return 0
        if self.first_sequence == "spread":
            return random.randrange(self.sequences - min(max(count, 1), self.sequences) + 1)
        return random.randrange(int(self.first_sequence.split(":")[1]))
