"""The library for asyncio against the cluster that `clients/run` starts."""

import asyncio
import threading
import time
import unittest

from tests.support import on_cluster
from tests.test_cluster import fresh

import seqd
import seqd.aio


@on_cluster
class Asyncio(unittest.TestCase):
    def test_asyncio(self):
        async def story():
            async with seqd.aio.Client() as client:
                name, key = fresh("aio"), fresh("once")
                await client.create(name, mode="segment")
                async with seqd.aio.IdGenerator(client, fresh("aio")) as generator:
                    ids = await asyncio.gather(*(generator.id() for _ in range(1000)))
                    ids += await generator.ids(1000)
                ids += await client.ids(10) + [await client.id()]
                self.assertEqual(len(set(ids)), len(ids))
                async with client.ranges(name, 100) as ranges:
                    values = [await ranges.next() for _ in range(250)]
                self.assertEqual(values, list(range(1, 251)))

                async def work():
                    return 7

                self.assertEqual([await client.once(key, work) for _ in range(2)], [7, 7])
                async with client.lock(fresh("lock"), ttl=2) as lock:
                    self.assertGreater(lock.check(), 0)
                    waiting = client.lock(lock.name, ttl=2)
                    with self.assertRaises(asyncio.TimeoutError):
                        await asyncio.wait_for(waiting.acquire(), 0.3)
                async with client.lock(lock.name, ttl=2, wait=5):
                    await client.run(client.sync.break_lock, lock.name)

        asyncio.run(story())

    def test_more_tasks_than_threads_wait_for_a_lock(self):
        async def story():
            async with seqd.aio.Client(threads=2) as client:
                name, inside = fresh("lock"), []

                async def worker():
                    async with client.lock(name, ttl=3):
                        inside.append(await client.id())

                await asyncio.wait_for(asyncio.gather(*(worker() for _ in range(6))), 30)
                self.assertEqual(len(inside), 6)

        asyncio.run(story())

    def test_more_tasks_than_threads_wait_for_the_same_work(self):
        async def story():
            async with seqd.aio.Client(threads=2) as client:
                async def work():
                    await asyncio.sleep(0)
                    return str(await client.id())

                key = fresh("once")
                results = await asyncio.wait_for(
                    asyncio.gather(*(client.once(key, work, wait=20) for _ in range(6))), 30)
                self.assertEqual(len(set(results)), 1)
                self.assertEqual(await client.once(fresh("once"), lambda: 7), 7)

        asyncio.run(story())

    def test_a_cancelled_wait_leaves_the_queue(self):
        async def story():
            async with seqd.aio.Client() as client:
                async with client.lock(fresh("lock"), ttl=10) as held:
                    for _ in range(10):
                        with self.assertRaises(asyncio.TimeoutError):
                            await asyncio.wait_for(client.lock(held.name).acquire(), 0.2)
                    until = time.monotonic() + 5
                    while (await client.call("lock", held.name))["waiters"] or any(
                            thread.name == "seqd-wait" for thread in threading.enumerate()):
                        self.assertLess(time.monotonic(), until)
                        await asyncio.sleep(0.05)

        asyncio.run(story())

    def test_a_cancelled_wait_gives_its_grant_back(self):
        async def story():
            async with seqd.aio.Client() as client:
                async with client.lock(fresh("lock"), ttl=3) as held:
                    waiting = client.lock(held.name, ttl=3)
                    with self.assertRaises(asyncio.TimeoutError):
                        await asyncio.wait_for(waiting.acquire(), 0.3)
                    again = asyncio.create_task(waiting.acquire())
                await again
                self.assertGreater(waiting.check(), 0)
                await waiting.release()

        asyncio.run(story())


if __name__ == "__main__":
    unittest.main()
