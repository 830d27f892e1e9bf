"""The library against three real nodes with TLS and tokens, which `clients/run` starts."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from unittest import mock

from tests.support import SHORT, control, on_cluster

import seqd

COUNT = 200_000 if SHORT else 1_000_000
OTHER = pathlib.Path(__file__).with_name("mint.py")
_names = iter(range(1_000_000))


def fresh(kind):
    """A name that no other test uses."""
    return f"{kind}-py-{os.getpid()}-{next(_names)}"


class Stepped:
    """A wall clock with steps."""

    def __init__(self):
        self.step_ms = 0

    def __call__(self):
        return time.time_ns() // 1_000_000 + self.step_ms


@on_cluster
class OnCluster(unittest.TestCase):
    def setUp(self):
        self.client = seqd.Client()
        self.addCleanup(self.client.close)

    # IDs

    def test_ids_are_unique_over_the_kill_of_a_leader(self):
        ids, failed = [], []

        def mint(generator):
            try:
                mine = []
                while len(mine) < COUNT // 4:
                    mine += generator.ids(1000)
                    mine.append(generator.id())
                ids.append(mine)
            except seqd.Error as error:
                failed.append(error)

        with seqd.IdGenerator(self.client, fresh("a")) as one, \
                seqd.IdGenerator(self.client, fresh("b")) as two:
            threads = [threading.Thread(target=mint, args=(g,)) for g in (one, two, one, two)]
            one.ready()
            two.ready()
            control("/kill/leader")
            try:
                for thread in threads:
                    thread.start()
                remote = [id for _ in range(20) for id in self.client.ids(100)]
                for thread in threads:
                    thread.join()
            finally:
                control("/start")
        self.assertEqual(failed, [])
        together = [id for mine in ids for id in mine] + remote
        self.assertGreaterEqual(len(together), COUNT)
        self.assertEqual(len(set(together)), len(together))
        for mine in ids:
            self.assertEqual(mine, sorted(mine))

    def test_a_process_that_is_stopped_past_its_window_mints_nothing_of_it(self):
        owner, layout = fresh("frozen"), self.client.layout("default")
        command = [sys.executable, str(OTHER), owner]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as frozen:
            try:
                lines = [json.loads(frozen.stdout.readline()) for _ in range(100)]
                worker = self.client.decode(lines[0]["id"])["worker"]
                frozen.send_signal(signal.SIGSTOP)
                # The fence may be of a renewal whose response had not arrived.
                while time.time() * 1000 <= self._fence_ms(worker, layout) + 500:
                    time.sleep(0.2)
                fence_ms = self._fence_ms(worker, layout)
                taken = [seqd.IdGenerator(self.client, fresh("taker")) for _ in range(3)]
                others = [id for generator in taken for id in generator.ids(5000)]
                resumed_ms = time.time() * 1000 - 100
                frozen.send_signal(signal.SIGCONT)
                until = time.monotonic() + 10
                while lines[-1]["ms"] < resumed_ms + 200 and time.monotonic() < until:
                    lines.append(json.loads(frozen.stdout.readline()))
                others += [id for generator in taken for id in generator.ids(5000)]
                for generator in taken:
                    generator.close()
            finally:
                frozen.kill()
        ids = [line["id"] for line in lines] + others
        self.assertEqual(len(set(ids)), len(ids))
        self.assertEqual([line for line in lines if fence_ms <= line["ms"] < resumed_ms], [])

    def _fence_ms(self, worker, layout):
        """The end of the window of a worker, as the cluster last confirmed it."""
        rows = self.client.workers(layout="default")
        ticks = [int(row["fence_tick"]) for row in rows if row["id"] == worker]
        return layout["epoch_ms"] + max(ticks, default=0) * layout["tick_ms"]

    @unittest.skipUnless(hasattr(os, "fork"), "needs fork")
    def test_a_fork_shares_neither_the_lease_nor_the_sockets(self):
        lock = self.client.lock(fresh("lock"), ttl=5).acquire()
        with seqd.IdGenerator(self.client, fresh("parent")) as parent, \
                self._ranges() as ranges:
            ids = parent.ids(100)
            ranges.next()
            read, write = os.pipe()
            child = os.fork()
            if child == 0:
                os.close(read)
                try:
                    found = self._in_child(parent, ranges, lock)
                except BaseException as error:
                    found = {"error": repr(error)}
                with os.fdopen(write, "w") as pipe:
                    json.dump(found, pipe)
                os._exit(0)
            os.close(write)
            ids += parent.ids(1000) + [self.client.id() for _ in range(20)]
            with os.fdopen(read) as pipe:
                found = json.load(pipe)
            os.waitpid(child, 0)
            self.assertGreater(lock.check(), 0)
            lock.release()
        self.assertEqual(found.get("refused"), ["forked"] * 3, found)
        self.assertEqual(len(set(ids + found["ids"])), len(ids) + len(found["ids"]))

    def _ranges(self):
        name = fresh("ranges")
        self.client.create(name, mode="segment")
        return self.client.ranges(name, 100)

    def _in_child(self, parent, ranges, lock):
        refused = []
        for call in (parent.id, ranges.next, lock.check):
            try:
                call()
                refused.append("nothing")
            except seqd.Error as error:
                refused.append(error.code)
        parent.close()
        lock.release()
        with seqd.IdGenerator(self.client, fresh("child")) as own:
            return {"refused": refused, "ids": own.ids(1000) + [self.client.id() for _ in range(20)]}

    def test_clock_steps_are_waited_for_or_refused(self):
        clock = Stepped()
        with seqd.IdGenerator(self.client, fresh("clock"), wall_ms=clock) as generator:
            ids = generator.ids(10)
            clock.step_ms = -30
            ids.append(generator.id())
            clock.step_ms = -20_000
            with self.assertRaises(seqd.Error) as behind:
                generator.id()
            clock.step_ms = 20_000
            with self.assertRaises(seqd.Error) as jumped:
                generator.id()
            clock.step_ms = 0
            ids += generator.ids(10)
        self.assertEqual((behind.exception.code, jumped.exception.code),
                         ("clock-behind", "clock-jumped"))
        self.assertEqual(ids, sorted(set(ids)))

    def test_a_closed_generator_returns_its_worker(self):
        owner = fresh("owner")
        workers, ids = [], []
        for _ in range(3):
            generator = seqd.IdGenerator(self.client, owner)
            ids += generator.ids(10)
            workers.append(generator.worker)
            self.assertTrue(generator.close())
            with self.assertRaises(seqd.Error) as closed:
                generator.id()
            self.assertEqual(closed.exception.code, "closed")
        self.assertEqual(len(set(workers)), 1)
        self.assertEqual(ids, sorted(set(ids)))

    def test_a_layout_that_does_not_exist_is_refused_at_once(self):
        generator = seqd.IdGenerator(self.client, "a", fresh("none"), patience=60)
        with self.assertRaises(seqd.Error) as refused:
            generator.id()
        self.assertEqual(refused.exception.code, "not-found")
        generator.close()

    # Sequences

    def test_sequences(self):
        name = fresh("order")
        self.client.create(name, mode="strict")
        self.assertEqual([self.client.next(name), self.client.next(name, 3)], [1, [2, 3, 4]])
        key = fresh("key")
        self.assertEqual(self.client.next(name, 2, key=key), self.client.next(name, 2, key=key))
        self.client.advance(name, 100)
        self.assertEqual(self.client.next(name), 100)
        self.assertIn(name, [row["name"] for row in self.client.sequences(prefix=name)])
        self.client.delete_sequence(name)
        with self.assertRaises(seqd.Error) as missing:
            self.client.next(name)
        self.assertEqual((missing.exception.code, missing.exception.retryable), ("not-found", False))
        self.assertIn("seqd seq create", missing.exception.hint)

    def test_values_of_ranges_are_unique_and_unused_ones_are_returned(self):
        name = fresh("range")
        self.client.create(name, mode="segment")
        values = []
        for _ in range(2):
            with self.client.ranges(name, 1000) as one:
                values += [one.next() for _ in range(2500)] + one.take(2000)
        self.assertEqual(values, list(range(1, 9001)))

    def test_a_repeated_request_returns_its_value_over_the_kill_of_a_leader(self):
        name = fresh("strict")
        self.client.create(name, mode="strict")
        values, keys = [], []
        control("/kill/leader")
        try:
            until = time.monotonic() + 30
            while len(values) < 50 and time.monotonic() < until:
                keys.append(fresh("key"))
                while time.monotonic() < until:
                    try:
                        values.append(self.client.next(name, key=keys[-1]))
                        break
                    except seqd.Error as error:
                        self.assertTrue(error.retryable or error.code == "outcome-unknown", error)
                        time.sleep(0.1)
        finally:
            control("/start")
        # A value that an attempt took before its node ended is a gap.
        self.assertEqual(len(values), 50)
        self.assertEqual(values, sorted(set(values)))
        self.assertEqual([self.client.next(name, key=key) for key in keys], values)

    # Locks

    def test_a_lock_excludes_and_its_token_grows(self):
        name = fresh("lock")
        with self.client.lock(name, ttl=5, owner="one") as one:
            self.assertGreater(one.check(), 0)
            with self.assertRaises(seqd.Error) as held:
                self.client.lock(name, wait=0, owner="two").acquire()
            self.assertEqual(held.exception.code, "lock-held")
            self.assertEqual(self.client.verify_lock(name, one.token)["owner"], "one")
            token, waiting = one.token, self.client.lock(name, ttl=5, wait=10, owner="two")
            thread = threading.Thread(target=waiting.acquire)
            thread.start()
        thread.join()
        self.assertGreater(waiting.token, token)
        with self.assertRaises(seqd.LockLost):
            one.check()
        waiting.release()
        self.assertTrue(waiting.lost.is_set())

    def test_a_broken_lock_is_noticed_at_the_next_renewal(self):
        lock = self.client.lock(fresh("lock"), ttl=3).acquire()
        self.client.break_lock(lock.name)
        self.assertTrue(lock.lost.wait(2.5))
        with self.assertRaises(seqd.LockLost) as lost:
            lock.check()
        self.assertEqual(lost.exception.reason, "taken-away")

    def test_a_holder_that_reaches_no_node_has_lost_the_lock_before_the_cluster_grants_it(self):
        cut = seqd.Client()
        self.addCleanup(cut.close)
        lock = cut.lock(fresh("lock"), ttl=2).acquire()
        cut.close()
        for endpoint in cut._transport.endpoints:
            endpoint.host, endpoint.port = "127.0.0.1", 9
        self.assertTrue(lock.lost.wait(4))
        with self.assertRaises(seqd.LockLost) as lost:
            lock.check()
        self.assertEqual(lost.exception.reason, "ran-out")
        # One attempt, and no error: the hold is over.
        lock.release()
        # The cluster still had it, or had ended it in the same moment.
        with self.client.lock(lock.name, wait=5) as other:
            self.assertGreater(other.token, lock.token)

    def test_a_lock_survives_the_kill_of_a_leader(self):
        with self.client.lock(fresh("lock"), ttl=6) as lock:
            control("/kill/leader")
            try:
                until = time.monotonic() + (4 if SHORT else 7)
                while time.monotonic() < until:
                    self.assertGreater(lock.check(), 0)
                    time.sleep(0.2)
            finally:
                control("/start")

    # Idempotency

    def test_work_is_done_once(self):
        key, done = fresh("once"), []

        def work(turn):
            done.append(turn.attempt)
            return {"made": len(done)}

        def fail():
            raise KeyError("no")

        with self.assertRaises(KeyError):
            self.client.once(key, fail, ttl=60)
        results = [self.client.once(key, work, ttl=60, wait=5) for _ in range(3)]
        self.assertEqual((results, done), ([{"made": 1}] * 3, [2]))
        self.assertEqual(self.client.once(fresh("once"), lambda: None), None)

    def test_work_is_not_repeated_because_its_result_cannot_be_stored(self):
        for result, reason in ((object(), "not JSON"), (float("nan"), "not JSON"), ("x" * 100_000, "65536")):
            key, done = fresh("once"), []
            for _ in range(2):
                with self.assertRaises(seqd.Error) as failed:
                    self.client.once(key, lambda: done.append(1) or result, wait=5)
                self.assertEqual(failed.exception.code, "not-kept")
                self.assertIn(reason, str(failed.exception))
            self.assertEqual(done, [1])

    def test_a_result_of_16_kib_of_json_is_stored(self):
        key, text = fresh("once"), "\u8ba2" * 5000
        self.assertEqual([self.client.once(key, lambda: text) for _ in range(2)], [text] * 2)

    def test_the_first_caller_gets_the_result_as_later_ones_do(self):
        key = fresh("once")
        results = [self.client.once(key, lambda: {"a": (1, 2), 3: 4}) for _ in range(2)]
        self.assertEqual(results, [{"a": [1, 2], "3": 4}] * 2)

    # Access

    def test_a_token_file_is_read(self):
        with tempfile.NamedTemporaryFile("w") as file:
            print(os.environ["SEQD_TOKEN"], file=file, flush=True)
            with mock.patch.dict(os.environ, SEQD_TOKEN_FILE=file.name, SEQD_TOKEN=""):
                with seqd.Client() as client:
                    self.assertGreater(client.id(), 0)

    def test_a_wrong_ca_has_a_hint_of_its_own(self):
        with mock.patch.dict(os.environ, SEQD_CACERT=""), seqd.Client(cert="") as client:
            with self.assertRaises(seqd.Error) as failed:
                client.id()
        self.assertIn("hint: a node was reached, but TLS failed", str(failed.exception))

    def test_a_wrong_token_is_refused(self):
        with self.assertRaises(seqd.Error) as refused, seqd.Client(token="x" * 40) as stranger:
            stranger.id()
        self.assertEqual((refused.exception.code, refused.exception.status), ("unauthorized", 401))

    def test_the_other_operations(self):
        client = self.client
        self.assertEqual(len(set(client.uuids(10) + [client.uuid(4)])), 11)
        stamps = client.timestamps(3)
        self.assertEqual(len(stamps), 3)
        self.assertIn("default", [row["name"] for row in client.layouts()])
        token = client.issue_tokens(ttl=60)["tokens"][0]
        token = token["token"] if isinstance(token, dict) else token
        client.consume_token(token)
        with self.assertRaises(seqd.Error) as used:
            client.consume_token(token)
        self.assertEqual(used.exception.code, "token-used")
        id = client.id()
        self.assertEqual(seqd.decode(client.decode(id)["base62"], "b62"), id)
        self.assertEqual(client.cluster()["quorum"]["voters"], 3)


if __name__ == "__main__":
    unittest.main()
