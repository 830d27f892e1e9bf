"""Generators against a stub that leases workers."""

import threading
import time
import unittest

from tests.support import VECTORS, Stub

import seqd

LAYOUT = next(row["layout"] for row in VECTORS["layouts"] if row["layout"]["name"] == "default")


def now_ms():
    return time.time_ns() // 1_000_000


class Clock:
    """A wall clock that stops in the next millisecond, and goes on from there."""

    def __init__(self):
        self.behind_ms, self.stopped_ms = 0, None

    def __call__(self):
        return now_ms() - self.behind_ms if self.stopped_ms is None else self.stopped_ms

    def stop(self):
        self.stopped_ms = self() + 1

    def go_on(self):
        self.behind_ms, self.stopped_ms = now_ms() - self.stopped_ms, None


class Workers:
    """Leases the workers 1, 2 and so on. If `loses` is set, the first lease is lost at its renewal,
    and the clock goes on with the second."""

    def __init__(self, clock=now_ms, renew_after_ms=250, layout=LAYOUT):
        self.clock, self.renew_after_ms, self.layout = clock, renew_after_ms, layout
        self.loses, self.leased = False, 0

    def __call__(self, request):
        if request.command == "DELETE":
            return 200, {}
        is_renewal = request.path != "/v1/workers"
        if is_renewal and self.loses and self.leased == 1:
            return 409, {"code": "lease-lost"}
        self.leased += not is_renewal
        if not is_renewal and self.leased == 2:
            self.clock.go_on()
        tick = self.clock() - LAYOUT["epoch_ms"]
        return 200, {"id": self.leased, "lease": f"l{self.leased}", "layout": self.layout,
                     "from_tick": str(tick), "fence_tick": str(tick + 30_000),
                     "renew_after_ms": self.renew_after_ms}


class Generators(unittest.TestCase):
    def generator(self, workers, **options):
        stub = Stub(workers)
        self.addCleanup(stub.close)
        generator = seqd.IdGenerator(seqd.Client(stub.name), "a", **options)
        self.addCleanup(generator.close)
        return generator

    def refused(self, call):
        with self.assertRaises(seqd.Error) as refused:
            call()
        return refused.exception.code, refused.exception.retryable

    def test_ids_of_one_call_are_of_one_worker_if_the_lease_is_lost_in_between(self):
        clock = Clock()
        workers = Workers(clock)
        generator = self.generator(workers, wall_ms=clock)
        generator.ready()
        # The tick has fewer IDs, and the next one begins under the second lease.
        clock.stop()
        workers.loses = True
        ids = generator.ids(5000)
        self.assertEqual({seqd.Layout(LAYOUT).unpack(id).worker_id for id in ids}, {2})
        self.assertEqual((len(ids), ids), (5000, sorted(set(ids))))

    def test_the_status_has_the_worker_and_the_end_of_its_window(self):
        workers = Workers()
        generator = self.generator(workers)
        began = time.time()
        generator.ready()
        status = generator.status()
        self.assertEqual((status.worker, status.leases, status.error), (1, 1, None))
        self.assertTrue(began + 29 <= status.window_ends <= time.time() + 30, status)
        generator.close()
        self.assertEqual(generator.status()[:3], (None, None, 1))

    def test_a_clock_ahead_of_the_cluster_by_a_window_is_named(self):
        generator = self.generator(Workers(), wall_ms=lambda: now_ms() + 60_000)
        began = time.monotonic()
        self.assertEqual(self.refused(generator.id), ("clock-ahead", True))
        self.assertLess(time.monotonic() - began, 3)

    def test_used_up_ticks_are_named(self):
        clock = Clock()
        generator = self.generator(
            Workers(clock, renew_after_ms=10_000), wall_ms=clock, patience=2)
        generator.ready()
        clock.stop()
        generator.ids(4095)
        self.assertEqual(self.refused(lambda: generator.ids(4096)), ("busy", True))

    def test_an_unknown_layout_is_named(self):
        unknown = {**LAYOUT, "order": "sequence-first"}
        generator = self.generator(Workers(layout=unknown))
        self.assertEqual(self.refused(generator.id), ("unknown-layout", False))


class Finalizers(unittest.TestCase):
    def test_a_finalizer_takes_no_lock(self):
        """It runs inside any code that allocates, also while that holds a lock of the object."""
        stub = Stub(lambda request: (503, {"code": "no-quorum", "retryable": True}))
        self.addCleanup(stub.close)
        client = seqd.Client(stub.name)
        generator, ranges = seqd.IdGenerator(client, "a"), seqd.Ranges(client, "a")
        for owner, core in ((generator, generator._core), (ranges, ranges._stock)):
            locks = [getattr(value, "_cond", value) for value in vars(core).values()]
            held = [lock for lock in locks
                    if hasattr(lock, "release") and lock.acquire(blocking=False)]
            self.assertTrue(held)
            finalizer = threading.Thread(target=core.stop, daemon=True)
            finalizer.start()
            finalizer.join(5)
            for lock in held:
                lock.release()
            self.assertFalse(finalizer.is_alive(), core)
            owner._thread.join(5)
            self.assertFalse(owner._thread.is_alive(), core)


if __name__ == "__main__":
    unittest.main()
