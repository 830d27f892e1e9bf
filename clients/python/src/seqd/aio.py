"""The same for asyncio. Requests run on a pool of threads, so that there is one implementation.

Minting and drawing from memory need no thread unless they have to wait. A wait for another caller
has a thread of its own: on the pool, waits could keep out the requests that end them.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
import time
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from typing import Any, Awaitable, Callable, List, Optional, TypeVar, Union

from . import client as _client
from . import generator as _generator
from . import lock as _lock
from . import once as _once
from .errors import Error
from .minter import Refused, Wait

T = TypeVar("T")

MOST_WAITS = 1000
"""Simultaneous waits of one client, because each has a thread."""


class Client:
    """`seqd.Client` for asyncio: `run` calls any other method of `client.sync` on a thread."""

    def __init__(self, *args: Any, threads: int = 16, **options: Any) -> None:
        """The arguments of `seqd.Client`; `threads` is the number of simultaneous requests."""
        self.sync = _client.Client(*args, **options)
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="seqd")
        self._waits = threading.BoundedSemaphore(MOST_WAITS)

    async def run(self, method: Callable[..., T], *args: Any, **fields: Any) -> T:
        """`await client.run(client.sync.advance, "order", 1000)`."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, functools.partial(method, *args, **fields))

    async def _wait(self, method: Callable[..., T], *args: Any, undo: Callable[[T], Any]) -> T:
        """Runs a method that waits for other callers. `undo` gets the result of a cancelled wait."""
        if not self._waits.acquire(blocking=False):
            raise Error("busy", f"{MOST_WAITS} tasks of this client wait for locks or keys",
                        "start fewer tasks at the same time, or limit their wait", True)
        ended: "Future[T]" = Future()

        def run() -> None:
            try:
                result = method(*args)
            except BaseException as error:
                _settle(ended.set_exception, error)
            else:
                if not _settle(ended.set_result, result):
                    undo(result)
            finally:
                self._waits.release()

        # A daemon, because the end of the program must not wait for it.
        threading.Thread(target=run, name="seqd-wait", daemon=True).start()
        try:
            return await asyncio.wrap_future(ended)
        except BaseException:
            # The result may have arrived in the moment of the cancellation.
            if not ended.cancel() and ended.exception() is None:
                threading.Thread(target=undo, args=(ended.result(),), daemon=True).start()
            raise

    async def call(self, operation: str, *path: Any, **fields: Any) -> Any:
        return await self.run(self.sync.call, operation, *path, **fields)

    async def id(self, layout: Optional[str] = None) -> int:
        return await self.run(self.sync.id, layout)

    async def ids(self, count: int, layout: Optional[str] = None) -> List[int]:
        return await self.run(self.sync.ids, count, layout)

    async def create(self, name: str, mode: Optional[str] = None, **definition: Any) -> Any:
        return await self.run(self.sync.create, name, mode, **definition)

    async def next(
        self, name: str, count: Optional[int] = None, *, key: Optional[str] = None
    ) -> Union[int, List[int]]:
        return await self.run(self.sync.next, name, count, key=key)

    def ranges(self, name: str, size: int = 10_000, *, patience: float = 5.0) -> "Ranges":
        return Ranges(self, name, size, patience)

    def lock(self, name: str, ttl: float = 30.0, wait: Optional[float] = None,
             owner: Optional[str] = None, **options: Any) -> "Lock":
        return Lock(self, functools.partial(self.sync.lock, name, ttl, wait, owner, **options))

    async def once(
        self, key: str, work: Callable[..., Union[Awaitable[T], T]], ttl: float = 86400.0, wait: float = 60.0,
        *, claim_ttl: float = 60.0, fingerprint: str = "",
    ) -> T:
        """`seqd.Client.once`; `work` may be an `async def` or a plain function."""
        until = time.monotonic() + wait
        turn, claim, result = await self._wait(
            _once.begin, self.sync, key, ttl, claim_ttl, fingerprint, until,
            undo=lambda begun: begun[0] and _once.abandon(self.sync, key, begun[1]))
        if turn is None:
            return result
        try:
            value = work(*_once.arguments(work, turn))
            if inspect.isawaitable(value):
                value = await value
        except BaseException:
            await asyncio.shield(self.run(_once.abandon, self.sync, key, claim))
            raise
        # The work was done: its result is stored even if this task is cancelled now.
        return await asyncio.shield(self.run(_once.complete, self.sync, key, claim, value))

    async def close(self) -> None:
        self._pool.shutdown(wait=False)
        self.sync.close()

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.close()


class IdGenerator:
    def __init__(self, client: Client, owner: str, layout: str = "default", **options: Any) -> None:
        self._client = client
        self.sync = _generator.IdGenerator(client.sync, owner, layout, **options)

    async def id(self) -> int:
        try:
            return self.sync._mint_one()
        except (Refused, Wait):
            return await self._client.run(self.sync.id)

    async def ids(self, count: int) -> List[int]:
        return await self._client.run(self.sync.ids, count)

    def status(self) -> _generator.GeneratorStatus:
        return self.sync.status()

    async def close(self) -> bool:
        return await self._client.run(self.sync.close)

    async def __aenter__(self) -> "IdGenerator":
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.close()


class Ranges:
    def __init__(self, client: Client, name: str, size: int, patience: float) -> None:
        self._client = client
        self.sync = client.sync.ranges(name, size, patience=patience)

    async def next(self) -> int:
        value = self.sync._take_one()
        return await self._client.run(self.sync.next) if value is None else value

    async def take(self, count: int) -> List[int]:
        return await self._client.run(self.sync.take, count)

    async def close(self) -> int:
        return await self._client.run(self.sync.close)

    async def __aenter__(self) -> "Ranges":
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.close()


class Lock:
    def __init__(self, client: Client, make: Callable[[], _lock.Lock]) -> None:
        self._client, self._make = client, make
        self.sync = make()
        self.lost = self.sync.lost
        self._is_acquiring = False

    @property
    def name(self) -> str:
        return self.sync.name

    @property
    def token(self) -> int:
        return self.sync.token

    def check(self) -> float:
        return self.sync.check()

    async def acquire(self) -> "Lock":
        if self._is_acquiring or self.sync._state is None:
            raise _lock.in_use(self.name)
        # Of its own, because a wait that was cancelled may still end with a grant.
        sync = self._make()
        self._is_acquiring = True
        try:
            await self._client._wait(sync.acquire, undo=lambda lock: lock._give_up())
        except asyncio.CancelledError:
            sync._stop.set()
            raise
        finally:
            self._is_acquiring = False
        self.sync, self.lost = sync, sync.lost
        return self

    async def wait_lost(self) -> None:
        """Returns when the lock is lost."""
        while not self.sync.lost.is_set():
            await asyncio.sleep(_lock.LOOK_EVERY_S)

    async def release(self) -> None:
        await self._client.run(self.sync.release)

    async def __aenter__(self) -> "Lock":
        return await self.acquire()

    async def __aexit__(self, *error: Any) -> None:
        await self._client.run(self.sync.__exit__, *error)


def _settle(setter: Callable[[Any], None], value: Any) -> bool:
    """False if the wait was cancelled."""
    try:
        setter(value)
        return True
    except InvalidStateError:
        return False
