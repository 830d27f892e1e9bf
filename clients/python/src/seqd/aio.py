"""The same for asyncio. Requests run on a pool of threads, so that there is one implementation.

Minting and drawing from memory need no thread unless they have to wait.
"""

from __future__ import annotations

import asyncio
import functools
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Awaitable, Callable, List, Optional, TypeVar, Union

from . import client as _client
from . import generator as _generator
from . import lock as _lock
from . import once as _once
from .minter import Refused, Wait

T = TypeVar("T")


class Client:
    """`seqd.Client` for asyncio: `run` calls any other method of `client.sync` on a thread."""

    def __init__(self, *args: Any, threads: int = 16, **options: Any) -> None:
        """The arguments of `seqd.Client`; `threads` is the number of simultaneous requests."""
        self.sync = _client.Client(*args, **options)
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="seqd")

    async def run(self, method: Callable[..., T], *args: Any, **fields: Any) -> T:
        """`await client.run(client.sync.advance, "order", 1000)`."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, functools.partial(method, *args, **fields))

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
        return Lock(self, self.sync.lock(name, ttl, wait, owner, **options))

    async def once(
        self, key: str, work: Callable[..., Awaitable[T]], ttl: float = 86400.0, wait: float = 60.0,
        *, claim_ttl: float = 60.0, fingerprint: str = "",
    ) -> T:
        until = time.monotonic() + wait
        turn, claim, result = await self.run(
            _once.begin, self.sync, key, ttl, claim_ttl, fingerprint, until)
        if turn is None:
            return result
        try:
            value = await work(*_once.arguments(work, turn))
        except BaseException:
            await asyncio.shield(self.run(_once.abandon, self.sync, key, claim))
            raise
        await self.run(_once.complete, self.sync, key, claim, value)
        return value

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
    def __init__(self, client: Client, sync: _lock.Lock) -> None:
        self._client, self.sync = client, sync
        self.lost = sync.lost

    @property
    def name(self) -> str:
        return self.sync.name

    @property
    def token(self) -> int:
        return self.sync.token

    def check(self) -> float:
        return self.sync.check()

    async def acquire(self) -> "Lock":
        loop = asyncio.get_running_loop()
        acquired = loop.run_in_executor(self._client._pool, self.sync.acquire)
        try:
            await asyncio.shield(acquired)
        except asyncio.CancelledError:
            # A grant that arrives later is given back.
            acquired.add_done_callback(self._give_back)
            raise
        self.lost = self.sync.lost
        return self

    def _give_back(self, acquired: "asyncio.Future[Any]") -> None:
        if not acquired.cancelled() and acquired.exception() is None:
            self._client._pool.submit(self.sync.release)

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
