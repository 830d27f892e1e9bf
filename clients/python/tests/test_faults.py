"""Responses that end early, refusals, and waits, against stub nodes."""

import asyncio
import socket
import threading
import time
import unittest
from unittest import mock

from tests.support import Stub

import seqd
import seqd.aio


class Faults(unittest.TestCase):
    def stub(self, answer):
        stub = Stub(answer)
        self.addCleanup(stub.close)
        return stub

    # Responses

    def test_a_truncated_response_counts_as_none(self):
        broken = self.stub(lambda request: Stub.CUT)
        good = self.stub(lambda request: (200, {"id": "7"}))
        self.assertEqual(seqd.Client([broken.name, good.name]).id(), 7)
        with self.assertRaises(seqd.Error) as unknown:
            seqd.Client([broken.name, good.name]).next("a")
        self.assertEqual(unknown.exception.code, "outcome-unknown")

    def test_a_result_is_stored_again_after_a_response_that_is_not_from_seqd(self):
        results = []

        def answer(request):
            if request.path.endswith("/begin"):
                return 200, {"state": "first", "claim": "c", "token": "1", "attempt": 1}
            results.append(request.body["result"])
            return (200, "<html>") if len(results) == 1 else (200, {})

        client = seqd.Client(self.stub(answer).name)
        self.assertEqual(client.once("key", lambda: {"made": 1}), {"made": 1})
        self.assertEqual(results, [{"made": 1}] * 2)

    def test_a_wait_of_a_repeatable_request_is_not_divided_by_the_endpoints(self):
        def answer(request):
            time.sleep(3)
            return 200, {"state": "free"}

        names = [self.stub(answer).name for _ in range(3)]
        # Endpoints that shared the wait would each have less time than it takes.
        with seqd.Client(names, timeout=4) as client:
            self.assertEqual(client.call("lock", "a", wait=3, wait_ms=3000), {"state": "free"})

    def test_the_time_of_all_reads_of_a_response_is_limited(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            def serve():
                while True:
                    try:
                        connection, _ = server.accept()
                    except OSError:
                        return
                    threading.Thread(target=trickle, args=(connection,), daemon=True).start()

            def trickle(connection):
                with connection:
                    connection.recv(65536)
                    try:
                        for piece in (b"HTTP/1.1 200 OK\r\n", *[b"a: b\r\n"] * 300):
                            time.sleep(0.1)
                            connection.sendall(piece)
                    except OSError:
                        pass

            threading.Thread(target=serve, daemon=True).start()
            client = seqd.Client("http://127.0.0.1:%d" % server.getsockname()[1], timeout=0.5)
            for call, code in ((client.id, "no-answer"), (lambda: client.next("a"), "unreachable")):
                began = time.monotonic()
                with self.assertRaises(seqd.Error) as failed:
                    call()
                self.assertEqual(failed.exception.code, code)
                self.assertLess(time.monotonic() - began, 10)

    def test_a_port_with_tls_has_not_received_the_request(self):
        tls = self.stub(lambda request: (
            400, {"code": "invalid-argument", "detail": "use https", "tls_required": True}))
        refusing = "http://127.0.0.1:1"
        good = self.stub(lambda request: (200, {"id": "7"}))
        for others in ([tls.name, good.name], [refusing, tls.name, good.name]):
            self.assertEqual(seqd.Client(others).id(), 7)
        for call in (lambda client: client.id(), lambda client: client.next("a")):
            with self.assertRaises(seqd.Error) as refused:
                call(seqd.Client([tls.name, refusing]))
            self.assertEqual(refused.exception.code, "invalid-argument")

    def test_a_body_is_as_short_as_json_permits(self):
        bodies = []

        def answer(request):
            if request.path.endswith("/begin"):
                return 200, {"state": "first", "claim": "c", "token": "1", "attempt": 1}
            bodies.append((int(request.headers["content-length"]), request.body["result"]))
            return 200, {}

        client = seqd.Client(self.stub(answer).name)
        for result in ("\u8ba2" * 5000, [1, 2], "\ud800"):
            self.assertEqual(client.once("key", lambda: result), result)
        self.assertEqual([result for _, result in bodies], ["\u8ba2" * 5000, [1, 2], "\ud800"])
        empty = len('{"claim":"c","result":}')
        self.assertEqual([size - empty for size, _ in bodies], [15_002, 5, 8])

    def test_a_retry_after_0_ms_has_a_pause(self):
        begun = []

        def answer(request):
            begun.append(request.path)
            return 503, {"code": "overloaded", "retryable": True, "retry_after_ms": 0}

        with self.assertRaises(seqd.Error) as refused:
            seqd.Client(self.stub(answer).name).once("key", lambda: 1, wait=0.4)
        self.assertEqual(refused.exception.code, "overloaded")
        self.assertLessEqual(len(begun), 22)

    def test_a_result_after_the_end_of_its_claim_is_too_late(self):
        def answer(request):
            if request.path.endswith("/begin"):
                return 200, {"state": "first", "claim": "c", "token": "1", "attempt": 1}
            return 409, {"code": "lease-lost"}

        with self.assertRaises(seqd.Error) as late:
            seqd.Client(self.stub(answer).name).once("key", lambda: 1)
        self.assertEqual((late.exception.code, late.exception.retryable), ("took-too-long", False))

    # Ranges

    def test_ranges_that_reach_no_node_give_that_reason(self):
        ranges = seqd.Client("http://127.0.0.1:1").ranges("a", patience=2)
        with self.assertRaises(seqd.Error) as refused:
            ranges.next()
        self.assertEqual((refused.exception.code, refused.exception.retryable), ("unreachable", True))
        ranges.close()

    def test_unused_values_are_returned_at_the_end_of_a_sequence(self):
        sequence = Sequence(1000)
        with seqd.Client(self.stub(sequence).name) as client:
            ranges = client.ranges("a", 10_000)
            self.assertEqual(ranges.take(2), [1, 2])
            self.assertTrue(sequence.refused.wait(5))
            self.assertEqual(ranges.close(), 998)

    def test_a_failed_take_takes_no_value(self):
        with seqd.Client(self.stub(Sequence(1000)).name) as client:
            ranges = client.ranges("a", 600)
            with self.assertRaises(seqd.Error) as refused:
                ranges.take(1001)
            self.assertEqual(refused.exception.code, "sequence-exhausted")
            self.assertEqual(ranges.take(1000), list(range(1, 1001)))
            self.assertEqual(ranges.close(), 0)

    def test_a_permanent_refusal_is_followed_by_a_pause_and_then_by_another_request(self):
        sequence = Sequence(1000)
        with mock.patch("seqd.pace.FOR_GOOD_S", 3), \
                seqd.Client(self.stub(sequence).name) as client:
            # Not due without the call, because the ranges hold enough.
            ranges = client.ranges("a", 1000)
            began = time.monotonic()
            for _ in range(3):
                with self.assertRaises(seqd.Error):
                    ranges.take(1500)
            self.assertLess(time.monotonic() - began, 3)
            self.assertEqual(sequence.refusals, 2)
            sequence.end = 2000
            values = []
            while not values:
                try:
                    values = ranges.take(1500)
                except seqd.Error:
                    self.assertLess(time.monotonic() - began, 20)
                    time.sleep(0.1)
            self.assertEqual(values, list(range(1, 1501)))
            ranges.close()

    def test_threads_that_wait_for_many_values_get_them_all(self):
        values = []
        with seqd.Client(self.stub(Sequence(4000)).name) as client:
            with client.ranges("a", 100) as ranges:
                threads = [threading.Thread(target=lambda: values.extend(ranges.take(1000)))
                           for _ in range(4)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
        self.assertEqual(sorted(values), list(range(1, 4001)))

    # Waits

    def test_a_cancelled_wait_for_a_lock_ends_its_connection_and_its_thread(self):
        waits = []

        def answer(request):
            waits.append(request.body["wait_ms"])
            if waits[-1]:
                request.wait_until_gone(10)
                return Stub.CUT
            return 409, {"code": "lock-held", "retryable": True}

        stub = self.stub(answer)

        async def story():
            async with seqd.aio.Client(stub.name) as client:
                waiting = asyncio.create_task(client.lock("a").acquire())
                until = time.monotonic() + 10
                while not waits:
                    self.assertLess(time.monotonic(), until)
                    await asyncio.sleep(0.01)
                waiting.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await waiting

        asyncio.run(story())
        until = time.monotonic() + 10
        while any(t.name == "seqd-wait" for t in threading.enumerate()):
            self.assertLess(time.monotonic(), until)
            time.sleep(0.01)
        # The last request finds a grant whose response the cancellation has cut off.
        self.assertEqual([bool(wait) for wait in waits], [True, False])

    # One lock object has one holder at a time

    def test_a_lock_that_is_in_use_is_refused_to_another_thread(self):
        locks = Locks()
        lock = seqd.Client(self.stub(locks).name).lock("a", ttl=30)
        thread = threading.Thread(target=lock.acquire)
        thread.start()
        self.assertTrue(locks.waits.wait(5))
        # Neither a check nor a look at the event ends the signal of the grant that follows.
        self.assertTrue(lock.lost.is_set())
        with self.assertRaises(seqd.LockLost):
            lock.check()
        self.assertEqual(self.in_use(lock), "lock-held")
        locks.free.set()
        thread.join()
        self.assertFalse(lock.lost.is_set())
        self.assertEqual((lock.token, self.in_use(lock)), (1, "lock-held"))
        locks.may_release.clear()
        thread = threading.Thread(target=lock.release)
        thread.start()
        self.assertTrue(locks.releases.wait(5))
        self.assertEqual(self.in_use(lock), "lock-held")
        locks.may_release.set()
        thread.join()
        with lock:
            self.assertEqual((lock.token, lock.lost.is_set()), (2, False))
        self.assertEqual(locks.released, ["l1", "l2"])

    def in_use(self, lock):
        with self.assertRaises(seqd.Error) as refused:
            lock.acquire()
        self.assertIn("another lock object", refused.exception.hint)
        return refused.exception.code

    def test_a_lock_whose_acquisition_failed_is_free(self):
        locks = Locks()
        lock = seqd.Client(self.stub(locks).name).lock("a", wait=0)
        with self.assertRaises(seqd.Error) as held:
            lock.acquire()
        self.assertNotIn("another lock object", str(held.exception))
        locks.free.set()
        with lock:
            self.assertGreater(lock.check(), 0)

    def test_a_lock_that_is_in_use_is_refused_to_another_task(self):
        locks = Locks()
        stub = self.stub(locks)

        async def story():
            async with seqd.aio.Client(stub.name) as client:
                lock = client.lock("a", ttl=30)
                first = asyncio.create_task(lock.acquire())
                self.assertTrue(await asyncio.to_thread(locks.waits.wait, 5))
                with self.assertRaises(seqd.Error) as refused:
                    await asyncio.wait_for(lock.acquire(), 5)
                self.assertIn("another lock object", refused.exception.hint)
                locks.free.set()
                await first
                with self.assertRaises(seqd.Error):
                    await asyncio.wait_for(lock.acquire(), 5)
                self.assertEqual((lock.token, lock.lost.is_set()), (1, False))
                await lock.release()
                async with lock:
                    self.assertEqual(lock.token, 2)

        asyncio.run(story())
        self.assertEqual(locks.released, ["l1", "l2"])


class Locks:
    """Grants a lock once `free` is set."""

    def __init__(self):
        self.granted, self.released = 0, []
        self.waits, self.free, self.releases, self.may_release = (threading.Event() for _ in range(4))
        self.may_release.set()

    def __call__(self, request):
        if request.path.endswith("/release"):
            self.releases.set()
            self.may_release.wait(10)
            self.released.append(request.body["lease"])
            return 200, {}
        self.waits.set()
        if not self.free.wait(10 if request.body["wait_ms"] else 0):
            return 409, {"code": "lock-held", "retryable": True}
        self.granted += 1
        return 200, {"lease": f"l{self.granted}", "token": str(self.granted), "expires_in_ms": 30_000}


class Sequence:
    """A segment sequence that ends."""

    def __init__(self, end):
        self.end, self.used, self.refusals, self.refused = end, 0, 0, threading.Event()

    def __call__(self, request):
        if request.command == "DELETE":
            if not request.path.endswith(f"/g{self.used}"):
                return 409, {"code": "grant-superseded"}
            return 200, {"returned": int(request.query["unused"][0])}
        count = min(int(request.body["size"]), self.end - self.used)
        if not count:
            self.refusals += 1
            # The second refusal is of the request without a grant.
            "after" not in request.body and self.refused.set()
            return 409, {"code": "sequence-exhausted"}
        first, self.used = self.used + 1, self.used + count
        return 200, {"grant": f"g{self.used}", "first": str(first), "last": str(self.used),
                     "count": count, "increment": "1"}


if __name__ == "__main__":
    unittest.main()
