"""Responses that end early, refusals, and waits, against stub nodes."""

import asyncio
import json
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
            time.sleep(1)
            return 200, {"state": "free"}

        names = [self.stub(answer).name for _ in range(3)]
        with seqd.Client(names, timeout=0.4) as client:
            self.assertEqual(client.call("lock", "a", wait=1, wait_ms=1000), {"state": "free"})

    # Ranges

    def test_unused_values_are_returned_at_the_end_of_a_sequence(self):
        sequence = Sequence(1000)
        with seqd.Client(self.stub(sequence).name) as client:
            ranges = client.ranges("a", 10_000)
            self.assertEqual(ranges.take(2), [1, 2])
            sequence.refused.wait(5)
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
        with mock.patch("seqd.pace.FOR_GOOD_S", 1), \
                seqd.Client(self.stub(sequence).name) as client:
            # Not due without the call, because the ranges hold enough.
            ranges = client.ranges("a", 1000)
            began = time.monotonic()
            for _ in range(3):
                with self.assertRaises(seqd.Error):
                    ranges.take(1500)
            self.assertLess(time.monotonic() - began, 1)
            self.assertEqual(sequence.refusals, 2)
            sequence.end = 2000
            time.sleep(max(began + 2 - time.monotonic(), 0))
            self.assertEqual(ranges.take(1500), list(range(1, 1501)))
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
                with self.assertRaises(asyncio.TimeoutError):
                    await asyncio.wait_for(client.lock("a").acquire(), 0.3)

        asyncio.run(story())
        until = time.monotonic() + 3
        while any(t.name == "seqd-wait" for t in threading.enumerate()):
            self.assertLess(time.monotonic(), until)
            time.sleep(0.01)
        # The last request finds a grant whose response the cancellation has cut off.
        self.assertEqual([bool(wait) for wait in waits], [True, False])


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
