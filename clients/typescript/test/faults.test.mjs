/** Responses, refusals, waits and clocks that go wrong, against stub nodes. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { Client } from "../dist/index.js";
import { REPEAT } from "../dist/lock.js";
import { bootMs } from "../dist/time.js";
import { stub } from "./support.mjs";

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const code = (code) => (error) => assert.equal(error.code, code) ?? true;
const numbers = (last) => Array.from({ length: last }, (_, i) => BigInt(i + 1));

async function until(condition) {
  for (const end = performance.now() + 5000; !condition(); await sleep(5)) {
    assert.ok(performance.now() < end, `not within 5 s: ${condition}`);
  }
}

/** A segment sequence that ends. */
function sequence(end) {
  const state = { end, used: 0, refused: 0 };
  state.answer = ({ method, path, query, body }) => {
    if (method === "DELETE") {
      if (!path.endsWith(`/g${state.used}`)) return [409, { code: "grant-superseded" }];
      return [200, { returned: Number(query.get("unused")) }];
    }
    const count = Math.min(Number(body.size), state.end - state.used);
    if (!count) return state.refused++, [409, { code: "sequence-exhausted" }];
    const first = state.used + 1;
    state.used += count;
    const [grant, last] = [`g${state.used}`, String(state.used)];
    return [200, { grant, first: String(first), last, count, increment: "1" }];
  };
  return state;
}

/** Runs a part of a test with clocks that the test sets. */
async function withClocks(t, work) {
  const clocks = { monotonic: performance.now(), wall: Date.now() };
  t.mock.method(performance, "now", () => clocks.monotonic);
  t.mock.method(Date, "now", () => Math.floor(clocks.wall));
  await work((monotonic, wall = monotonic) => {
    clocks.monotonic += monotonic;
    clocks.wall += wall;
  });
  t.mock.restoreAll();
}

test("a truncated response counts as none", async (t) => {
  const broken = await stub(t, () => [200, null]);
  const good = await stub(t, () => [200, { id: "7" }]);
  assert.equal(await new Client([broken, good]).id(), 7n);
  await assert.rejects(new Client([broken, good]).next("a"), code("outcome-unknown"));
});

test("a result is stored again after a response that is not from seqd", async (t) => {
  const results = [];
  const url = await stub(t, ({ path, body }) => {
    if (path.endsWith("/begin")) return [200, { state: "first", claim: "c", token: "1", attempt: 1 }];
    results.push(body.result);
    return results.length === 1 ? [200, "<html>"] : [200, {}];
  });
  assert.deepEqual(await new Client(url).once("key", () => ({ made: 1 })), { made: 1 });
  assert.deepEqual(results, [{ made: 1 }, { made: 1 }]);
});

test("a wait of a repeatable request is not divided by the endpoints", async (t) => {
  const answer = () => sleep(1000).then(() => [200, { state: "free" }]);
  const urls = [await stub(t, answer), await stub(t, answer), await stub(t, answer)];
  const client = new Client(urls, { timeout: 0.4 });
  const state = await client.call("lock", ["a"], { wait_ms: 1000 }, { wait: 1 });
  assert.deepEqual(state, { state: "free" });
});

test("times are sent in whole milliseconds", async (t) => {
  const bodies = [];
  const url = await stub(t, ({ path, body }) => {
    bodies.push(body);
    return [200, path.endsWith("/begin") ? { state: "done", result: 1 } : {}];
  });
  const client = new Client(url);
  await client.once("key", () => 1, { ttl: 4.1, claimTtl: 2.01 });
  await client.issueTokens(1, 4.1);
  const times = bodies.map((body) => [body.ttl_ms, body.claim_ttl_ms]);
  assert.deepEqual(times, [[4100, 2010], [4100, undefined]]);
});

test("unused values are returned at the end of a sequence", async (t) => {
  const state = sequence(1000);
  const ranges = new Client(await stub(t, state.answer)).ranges("a", 10_000);
  assert.deepEqual(await ranges.take(2), [1n, 2n]);
  await until(() => (ranges.tryNext(), state.refused >= 2));
  const drawn = Number(await ranges.next());
  assert.equal(await ranges.close(), 1000 - drawn);
});

test("a failed take takes no value", async (t) => {
  const ranges = new Client(await stub(t, sequence(1000).answer)).ranges("a", 600);
  await assert.rejects(ranges.take(1001), code("sequence-exhausted"));
  assert.deepEqual(await ranges.take(1000), numbers(1000));
  assert.equal(await ranges.close(), 0);
});

test("a permanent refusal is followed by a pause, and then by another request", async (t) => {
  const state = sequence(1000);
  const ranges = new Client(await stub(t, state.answer)).ranges("a", 10_000);
  await ranges.next();
  for (let i = 0; i < 300; i++) {
    await ranges.next();
    if (i % 20 === 0) await sleep(5);
  }
  assert.equal(state.refused, 2, "with and without the grant");
  await ranges.take(699);
  await assert.rejects(ranges.next(), code("sequence-exhausted"));
  state.end = 2000;
  assert.equal(ranges.tryNext(), null);
  await assert.rejects(ranges.next(), code("sequence-exhausted"));
  const now = performance.now.bind(performance);
  t.mock.method(performance, "now", () => now() + 12_600);
  assert.equal(await ranges.next(), 1001n);
  await ranges.close();
});

test("closed ranges return no value of a late grant", async (t) => {
  const state = sequence(1000);
  let grants = 0;
  const url = await stub(t, async (request) => {
    if (request.method === "POST" && ++grants === 2) await sleep(400);
    return state.answer(request);
  });
  const ranges = new Client(url).ranges("a", 10, 0.2);
  assert.deepEqual(await ranges.take(2), [1n, 2n]);
  await ranges.close();
  await until(() => state.used === 20);
  await sleep(50);
  assert.equal(ranges.tryNext(), null);
  await assert.rejects(ranges.next(), code("closed"));
});

test("a long wait for a lock is sent again before its first request ends", async (t) => {
  const waits = [];
  const url = await stub(t, async ({ path, body, gone }) => {
    if (!path.endsWith("/acquire")) return [200, { expires_in_ms: 30_000 }];
    const before = waits.at(-1)?.isGone;
    const wait = { nonce: body.nonce, waitMs: body.wait_ms, isGone: false, before };
    waits.push(wait);
    if (waits.length === 3) {
      await sleep(REPEAT.overlapMs * 2);
      return [200, { lease: "l", token: "7", expires_in_ms: 30_000 }];
    }
    await gone;
    wait.isGone = true;
    return [200, null];
  });
  const usual = { ...REPEAT };
  t.after(() => Object.assign(REPEAT, usual));
  Object.assign(REPEAT, { afterMs: 300, overlapMs: 100 });
  const lock = await new Client(url).lock("a").acquire();
  assert.equal(lock.token, 7n);
  assert.deepEqual(waits.map((wait) => wait.before), [undefined, false, false]);
  assert.equal(new Set(waits.map((wait) => wait.nonce)).size, 1);
  assert.ok(waits[0].waitMs - waits[2].waitMs >= 500);
  await until(() => waits[0].isGone && waits[1].isGone);
  await lock.release();
});

/** The largest lead of the wall clock before a test, which the next suspension includes. */
const LEAD_MS = 21;

test("the clock with suspensions does not count the ticks of the wall clock", async (t) => {
  await withClocks(t, (pass) => {
    const began = bootMs();
    for (let i = 0; i < 30_000; i++) {
      pass(0.1);
      bootMs();
    }
    assert.ok(Math.abs(bootMs() - began - 3000) <= LEAD_MS);
  });
});

test("the clock with suspensions counts them, also after the wall clock was set back", async (t) => {
  await withClocks(t, (pass) => {
    for (const [monotonic, wall, boot] of [[10, 60_010, 60_010], [10, -5000, 10], [0, 1000, 1000]]) {
      const began = bootMs();
      pass(monotonic, wall);
      assert.ok(Math.abs(bootMs() - began - boot) <= LEAD_MS);
    }
  });
});
