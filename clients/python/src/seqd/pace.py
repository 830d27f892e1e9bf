"""The intervals between requests of a background thread: short, spread, and bounded from below."""

from __future__ import annotations

import random
from typing import Optional

from .errors import Error

FIRST_S = 0.3
"""The first wait after a failure. It doubles up to `MOST_S`."""
MOST_S = 2.0
LONGEST_ASKED_S = 5.0
"""The longest wait that a response can request."""
FOR_GOOD_S = 10.0
"""The wait after a permanent refusal."""

_ONE_NODE = ("clock-behind", "clock-skewed")


def is_for_good(error: Error) -> bool:
    """Returns whether another attempt would most likely fail in the same way."""
    if error.code in ("unknown-layout", "sequence-cycled"):
        return True
    passing = error.retryable or error.code in ("outcome-unknown", "bad-answer")
    return not passing and (error.status or 0) < 500


class Pace:
    def __init__(self) -> None:
        self._failures = 0

    def after_success(self, due_s: float) -> float:
        """Slightly before it is due, so that programs that started together drift apart."""
        self._failures = 0
        return due_s * random.uniform(0.85, 1.0)

    def after(self, error: Error) -> float:
        if is_for_good(error):
            return FOR_GOOD_S * random.uniform(1.0, 1.25)
        doubled = min(FIRST_S * 2 ** min(self._failures, 4), MOST_S)
        self._failures += 1
        asked: Optional[int] = None if error.code in _ONE_NODE else error.retry_after_ms
        least = max(doubled, min((asked or 0) / 1000, LONGEST_ASKED_S))
        return least * random.uniform(1.0, 1.25)
