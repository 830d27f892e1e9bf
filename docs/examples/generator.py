"""A generator of snowflake IDs under a worker lease of a seqd cluster, of the standard library alone.

    generator.py ENDPOINT[,ENDPOINT...] OWNER COUNT [LAYOUT]    prints COUNT IDs, gives the worker back

It keeps the whole contract: a tick is used once, only inside the window that the cluster has
answered; a clock that went back is waited for or refused; a fork makes a generator of its own.
"""

import json
import os
import random
import signal
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

MAX_BACKWARD_MS = 50  # a clock that is behind by more is refused
MAX_FORWARD_MS = 1000  # further ahead of the monotonic clock than this is refused
STEADY_S = 5  # until it has stood there for so long


class Refused(Exception):
    """No ID; the text says why."""


class Problem(Exception):
    """An answer of the cluster that is an error: see docs/PROBLEMS.md."""

    def __init__(self, body):
        super().__init__(f"{body['code']}: {body.get('detail')}")
        self.code, self.retryable = body["code"], body.get("retryable", False)
        self.retry_after = body.get("retry_after_ms", 0) / 1000


class Generator:
    def __init__(self, endpoints, owner, layout="default"):
        self.endpoints = [endpoint.removeprefix("http://") for endpoint in endpoints]
        self.owner, self.layout = owner, layout
        self.pid = os.getpid()  # a child of a fork has another one
        self.lock = threading.Lock()  # held for arithmetic alone, never for a request
        self.lease, self.why = None, "no lease yet"
        self.line = time.time() - time.monotonic()  # what a steady clock keeps
        self.jump = None  # a line further ahead, and since when
        self.ended = threading.Event()
        self.renewer = threading.Thread(target=self._renew, daemon=True)
        self.renewer.start()

    def request(self, method, path, fields, repeatable):
        """One request. The next endpoint is asked where that is certainly harmless."""
        for endpoint in list(self.endpoints):
            url, body = f"http://{endpoint}{path}", json.dumps(fields).encode()
            if method == "DELETE":
                url, body = f"{url}?{urllib.parse.urlencode(fields)}", None
            request = urllib.request.Request(url, body, method=method)
            request.add_header("Content-Type", "application/json")
            try:
                with urllib.request.urlopen(request, timeout=4) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as error:
                problem = Problem(json.load(error))
                if not problem.retryable:
                    raise problem from None
                last = problem
            except OSError as error:
                last = error
                refused = isinstance(getattr(error, "reason", None), ConnectionRefusedError)
                if not refused and not repeatable:
                    break  # it may have taken effect
            self.endpoints.append(self.endpoints.pop(0))  # ask another one first from here on
        raise last

    def _renew(self):
        """Takes a lease, a later fence at a third of each window, and another lease when it is lost."""
        wait = 0
        while not self.ended.wait(wait):
            try:
                held = self.lease
                if held is None:
                    # A lost answer costs a worker for one window; another is taken then.
                    fields = {"layout": self.layout, "owner": self.owner}
                    answer = self.request("POST", "/v1/workers", fields, False)
                    self._install(answer)
                else:
                    path = f"/v1/workers/{self.layout}/{held['id']}/lease"
                    fields = {"owner": self.owner, "lease": held["lease"]}
                    answer = self.request("PUT", path, fields, True)
                    with self.lock:  # a fence only rises, and only once it was answered
                        self.fence = max(self.fence, int(answer["fence_tick"]))
                self.why = "the clock is ahead of the cluster's"
                wait = answer["renew_after_ms"] / 1000 * random.uniform(0.85, 1)
            except Exception as error:  # whatever an answer may be: this thread must not end
                self.why = str(error) or type(error).__name__
                wait = max(0.3, min(5, getattr(error, "retry_after", 0))) * random.uniform(1, 1.5)
                if getattr(error, "code", "") == "lease-lost":
                    with self.lock:  # never mint with it again: a new lease is a new generator
                        self.lease = None
                    wait = 0

    def _install(self, lease):
        made = lease["layout"]
        if made["order"] not in ("tick-worker-sequence", "tick-sequence-worker"):
            self.ended.set()  # asking again would only take more workers
            raise ValueError(f"unknown order of fields {made['order']}")
        worker_bits = made["datacenter_bits"] + made["worker_bits"]
        with self.lock:
            self.sequences, self.worker_bits = 1 << made["sequence_bits"], worker_bits
            self.last_tick, self.next = int(lease["from_tick"]) - 1, self.sequences
            self.fence, self.lease = int(lease["fence_tick"]), lease

    def _take(self):
        """An ID, or the seconds to wait for one."""
        if os.getpid() != self.pid:
            raise Refused("this process is a fork: it must make a generator of its own")
        with self.lock:
            if self.ended.is_set():
                raise Refused("closed")
            wall, line = time.time(), time.time() - time.monotonic()
            if (line - self.line) * 1000 > MAX_FORWARD_MS:
                steady = self.jump and abs(line - self.jump[0]) * 1000 <= MAX_FORWARD_MS
                self.jump = self.jump if steady else (line, time.monotonic())
                if time.monotonic() - self.jump[1] < STEADY_S:
                    raise Refused("the wall clock jumped ahead of the monotonic clock")
            self.line, self.jump = line, None  # slow drift does not add up
            if self.lease is None:
                return None, 0.05
            made = self.lease["layout"]
            tick = (int(wall * 1000) - made["epoch_ms"]) // made["tick_ms"]
            behind = (self.last_tick - tick) * made["tick_ms"]
            if behind > MAX_BACKWARD_MS:
                raise Refused(f"the clock is {behind} ms behind the last tick used")
            if behind > 0 or (tick == self.last_tick and self.next == self.sequences):
                return None, 0.0005 if behind <= 0 else behind / 1000
            if tick >= self.fence or tick >> made["time_bits"]:
                return None, 0.05  # a later fence may be on its way
            if tick > self.last_tick:  # any first sequence is right; random ones spread over shards
                self.last_tick, self.next = tick, random.randrange(self.sequences)
            sequence, self.next = self.next, self.next + 1
            if made["order"] == "tick-worker-sequence":
                low = self.lease["id"] * self.sequences + sequence
            else:
                low = (sequence << self.worker_bits) | self.lease["id"]
            return tick * (self.sequences << self.worker_bits) + low, 0

    def id(self, patience=5.0):
        """The next ID; Refused after so many seconds."""
        until = time.monotonic() + patience
        while True:
            made, wait = self._take()
            if made is not None:
                return made
            if time.monotonic() >= until:
                raise Refused(f"no lease, or its window has ended: {self.why}")
            time.sleep(wait)

    def close(self):
        """Ends the minting, then gives the worker back with the last tick: it is free at once."""
        if os.getpid() != self.pid:
            return  # the lease is the parent's
        with self.lock:
            self.ended.set()
        self.renewer.join()
        if self.lease is not None:
            path = f"/v1/workers/{self.layout}/{self.lease['id']}/lease"
            fields = {"owner": self.owner, "lease": self.lease["lease"], "last_tick": self.last_tick}
            self.request("DELETE", path, fields, False)


def main():
    endpoints, owner, count = sys.argv[1].split(","), sys.argv[2], int(sys.argv[3])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # so that `finally` runs
    generator = Generator(endpoints, owner, *sys.argv[4:5])
    try:
        for _ in range(count):
            print(generator.id(), flush=True)
    finally:
        generator.close()


if __name__ == "__main__":
    main()
