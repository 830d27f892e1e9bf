"""The decisions of the Rust crate, in `clients/vectors.json`."""

import json
import os
import pathlib
import unittest

from tests.support import ROOT, VECTORS, Node

import seqd
from seqd.layout import Layout, decode, encode
from seqd.lock import Hold
from seqd.minter import Minter, Refused, Wait
from seqd.routes import ROUTES

# They do not answer with JSON, or are for probes and browsers.
NOT_HERE = {"snapshot", "metrics", "openapi", "code_page", "live", "ready"}
GOOD = {"does": "answer", "status": 200, "headers": {}, "body": json.dumps(
    {"id": "7", "ranges": [{"first": "7", "last": "7", "count": 1}], "increment": "1"})}


class Vectors(unittest.TestCase):
    def test_layouts(self):
        for case in VECTORS["layouts"]:
            layout = Layout(case["layout"])
            for time in case["times"]:
                tick = layout.tick_at(time["unix_ms"])
                known = str(tick) if 0 <= tick <= layout.max_tick else None
                self.assertEqual(known, time.get("tick"))
            for row in case["ids"]:
                id = int(row["id"])
                parts = layout.unpack(id)
                self.assertEqual(parts.tick, int(row["tick"]))
                for name in ("worker_id", "worker", "datacenter", "sequence", "unix_ms"):
                    self.assertEqual(getattr(parts, name), row[name])
                self.assertEqual(layout.pack(parts.tick, parts.worker_id, parts.sequence), id)
                for form, name in (("hex", "hex"), ("b62", "base62"), ("crockford", "crockford")):
                    self.assertEqual(encode(id, form), row[name])
                    self.assertEqual(decode(row[name], form), id)

    def test_leases(self):
        for script in VECTORS["leases"]:
            minter = Minter(script["max_backward_wait_ms"], script["max_forward_jump_ms"],
                            script["on_rollback"])
            for step in script["steps"]:
                with self.subTest(script["name"], step=step):
                    self._lease_step(minter, Layout(script["layout"]), step)

    def _lease_step(self, minter, layout, step):
        does = step["do"]
        if does == "granted":
            ticks = int(step["from_tick"]), int(step["fence_tick"])
            minter.granted(layout, step["worker_id"], *ticks)
        elif does == "renewed":
            minter.renewed(int(step["fence_tick"]))
        elif does == "lost":
            minter.lost()
        elif does == "close":
            self.assertEqual(str(minter.close()), step["last_tick"])
        else:
            expected = {k: v for k, v in step.items() if k in ("ids", "wait_ms", "refused", "clock")}
            now = step["at_ms"], step["wall_ms"]
            read = does == "read"
            try:
                if read:
                    minter.read(*now)
                    result = {"clock": "good"}
                elif step["count"] == 1 and (id := minter.one(step["wall_ms"])) is not None:
                    result = {"ids": [str(id)]}
                else:
                    run = minter.mint(*now, step["count"])
                    ids = range(run.first, run.first + run.length * run.step, run.step)
                    result = {"ids": [str(id) for id in ids]}
            except Wait as wait:
                result = {"clock": "wait"} if read else {"wait_ms": wait.ms}
            except Refused as refused:
                result = {"clock" if read else "refused": refused.code}
            self.assertEqual(result, expected)

    def test_locks(self):
        for script in VECTORS["locks"]:
            hold = Hold(script["ttl_ms"])
            for step in script["steps"]:
                with self.subTest(script["name"], step=step):
                    if step["do"] in ("granted", "renewed"):
                        hold.granted(step["sent_ms"], step["expires_in_ms"])
                    elif step["do"] == "refused":
                        hold.refused(step["code"])
                    elif hold.left_ms(step["at_ms"]):
                        self.assertEqual(hold.until_ms, step["until_ms"])
                    else:
                        self.assertEqual(hold.lost, step["lost"])

    def test_retries(self):
        for case in VECTORS["retries"]:
            with self.subTest(case["node"], repeatable=case["repeatable"]):
                first, second, alone = Node(case["node"]), Node(GOOD), Node(case["node"])
                try:
                    self._retry(case, first, second, alone)
                finally:
                    for node in (first, second, alone):
                        node.close()

    def _retry(self, case, first, second, alone):
        def send(*nodes):
            client = seqd.Client([node.name for node in nodes], timeout=1.5)
            return client.id() if case["repeatable"] else client.next("a")

        if case["then"] == "next":
            self.assertEqual(send(first, second), 7)
        else:
            with self.assertRaises(seqd.Error):
                send(first, second)
        self.assertEqual(second.requests, case["then"] == "next")
        with self.assertRaises(seqd.Error) as raised:
            send(alone)
        error = raised.exception
        found = {"code": error.code, "retryable": error.retryable,
                 "retry_after_ms": error.retry_after_ms}
        self.assertEqual(found, case["error"])


class Description(unittest.TestCase):
    def test_routes_are_those_of_the_interface(self):
        rows = {row["id"]: row for row in VECTORS["operations"] if row["id"] not in NOT_HERE}
        self.assertEqual(set(ROUTES), set(rows))
        for id, row in rows.items():
            route = ROUTES[id]
            self.assertEqual((route.method, route.path, route.repeat),
                             (row["method"], row["path"], row["repeat"]), id)

    def test_fields_are_those_of_the_description(self):
        path = os.environ.get("OPENAPI", ROOT.parent / "docs/openapi.json")
        paths = json.loads(pathlib.Path(path).read_text())["paths"]
        for id, route in ROUTES.items():
            operation = paths[route.path][route.method.lower()]
            self.assertEqual(operation["operationId"], id)
            query = [p["name"] for p in operation.get("parameters", []) if p["in"] == "query"]
            self.assertEqual(route.query.split(), [n for n in query if n != "timeout_ms"], id)
            content = operation.get("requestBody", {}).get("content", {})
            body = content.get("application/json", {}).get("schema", {}).get("properties", {})
            self.assertEqual(set(route.body.split()), set(body), id)


if __name__ == "__main__":
    unittest.main()
