"""Marks objects whose connections, leases and threads belong to the parent of a fork.

The hook runs in each child that is created through Python or that calls `PyOS_AfterFork_Child`, as
uWSGI does. It takes no lock, because a thread that does not exist in the child may hold it.
"""

from __future__ import annotations

import os
import weakref
from typing import Any

_forkable: "weakref.WeakSet[Any]" = weakref.WeakSet()


def watch(thing: Any) -> None:
    """Calls `thing._after_fork()` in each child of this process."""
    _forkable.add(thing)


def _in_child() -> None:
    for thing in list(_forkable):
        thing._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
