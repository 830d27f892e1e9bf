/** Responses, refusals, waits and clocks that go wrong, against stub nodes. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

import { Client, IdGenerator, Layout } from "../dist/index.js";
import { REPEAT } from "../dist/lock.js";
import { bootMs } from "../dist/time.js";
import { stub, VECTORS } from "./support.mjs";

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
  const answer = () => sleep(3000).then(() => [200, { state: "free" }]);
  const urls = [await stub(t, answer), await stub(t, answer), await stub(t, answer)];
  // Endpoints that shared the wait would each have less time than it takes.
  const client = new Client(urls, { timeout: 4 });
  const state = await client.call("lock", ["a"], { wait_ms: 3000 }, { wait: 3 });
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

test("a port with TLS has not received the request", async (t) => {
  const problem = { code: "invalid-argument", detail: "use https", tls_required: true };
  const tls = await stub(t, () => [400, problem]);
  const [good, refusing] = [await stub(t, () => [200, { id: "7" }]), "http://127.0.0.1:1"];
  assert.equal(await new Client([tls, good]).id(), 7n);
  assert.equal(await new Client([refusing, tls, good]).id(), 7n);
  await assert.rejects(new Client([tls, refusing]).id(), code("invalid-argument"));
  await assert.rejects(new Client([tls, refusing]).next("a"), code("invalid-argument"));
});

test("a retry after 0 ms has a pause", async (t) => {
  let begun = 0;
  const url = await stub(t, () => {
    begun += 1;
    return [503, { status: 503, code: "overloaded", retryable: true, retry_after_ms: 0 }];
  });
  const done = new Client(url).once("key", () => 1, { wait: 0.4 });
  await assert.rejects(done, code("overloaded"));
  // One request per 20 ms, and a few, because a timer may end a millisecond early.
  assert.ok(begun <= 30, `${begun} requests`);
});

test("a result after the end of its claim is too late", async (t) => {
  const url = await stub(t, ({ path }) => {
    if (path.endsWith("/begin")) return [200, { state: "first", claim: "c", token: "1", attempt: 1 }];
    return [409, { code: "lease-lost" }];
  });
  await assert.rejects(new Client(url).once("key", () => 1), code("took-too-long"));
});

test("ranges that reach no node give that reason", async () => {
  const ranges = new Client("http://127.0.0.1:1").ranges("a", 100, 2);
  await assert.rejects(ranges.next(), (error) => error.code === "unreachable" && error.retryable);
  await ranges.close();
});

const LAYOUT = VECTORS.layouts.find((row) => row.layout.name === "default").layout;

/** A wall clock that stops in the next millisecond, and goes on from there. */
function stoppable() {
  let [behindMs, stoppedMs] = [0, null];
  const clock = () => stoppedMs ?? Date.now() - behindMs;
  clock.stop = () => (stoppedMs = clock() + 1);
  clock.goOn = () => ([behindMs, stoppedMs] = [Date.now() - stoppedMs, null]);
  return clock;
}

/** A generator on a stub that leases the workers 1, 2 and so on. If `loses` is set, the first lease
 * is lost at its renewal, and the clock goes on with the second. */
async function generatorOn(t, options = {}, { clock = Date.now, layout = LAYOUT, renewAfterMs = 250 } = {}) {
  const state = { leased: 0, loses: false };
  const url = await stub(t, ({ method, path }) => {
    if (method === "DELETE") return [200, {}];
    const isRenewal = path !== "/v1/workers";
    if (isRenewal && state.loses && state.leased === 1) return [409, { code: "lease-lost" }];
    if (!isRenewal && ++state.leased === 2) clock.goOn();
    const tick = clock() - LAYOUT.epoch_ms;
    const ticks = { from_tick: String(tick), fence_tick: String(tick + 30_000) };
    const lease = { id: state.leased, lease: `l${state.leased}`, layout, renew_after_ms: renewAfterMs };
    return [200, { ...lease, ...ticks }];
  });
  const generator = new IdGenerator(new Client(url), "a", "default", options);
  t.after(() => generator.close());
  return { generator, state };
}

test("IDs of one call are of one worker if the lease is lost in between", async (t) => {
  const clock = stoppable();
  const { generator, state } = await generatorOn(t, { wallMs: clock }, { clock });
  await generator.id();
  // The tick has fewer IDs, and the next one begins under the second lease.
  clock.stop();
  state.loses = true;
  const ids = await generator.ids(5000);
  assert.deepEqual(new Set(ids.map((id) => new Layout(LAYOUT).unpack(id).workerId)), new Set([2]));
  assert.equal(ids.length, 5000);
  assert.ok(ids.every((id, i) => i === 0 || id > ids[i - 1]));
});

test("the status has the worker and the end of its window", async (t) => {
  const { generator } = await generatorOn(t);
  const began = Date.now();
  await generator.id();
  const { windowEnds, ...rest } = generator.status();
  assert.deepEqual(rest, { worker: 1, leases: 1, error: null });
  assert.ok(windowEnds >= began + 29_000 && windowEnds <= Date.now() + 30_000, String(windowEnds));
  await generator.close();
  assert.deepEqual(generator.status(), { worker: null, windowEnds: null, leases: 1, error: null });
});

test("a clock ahead of the cluster by a window is named", async (t) => {
  const { generator } = await generatorOn(t, { wallMs: () => Date.now() + 60_000 });
  const began = performance.now();
  await assert.rejects(generator.id(), (error) => error.code === "clock-ahead" && error.retryable);
  assert.ok(performance.now() - began < 3000);
});

test("used up ticks are named", async (t) => {
  const clock = stoppable();
  const options = { wallMs: clock, patience: 2 };
  const { generator } = await generatorOn(t, options, { clock, renewAfterMs: 10_000 });
  await generator.id();
  clock.stop();
  await generator.ids(4095);
  await assert.rejects(generator.ids(4096), (error) => error.code === "busy" && error.retryable);
});

test("an unknown layout is named", async (t) => {
  const { generator } = await generatorOn(t, {}, { layout: { ...LAYOUT, order: "sequence-first" } });
  await assert.rejects(generator.id(), code("unknown-layout"));
});

/** Grants a lock while `isFree` is set, and `mayRelease` ends a release. */
function locks() {
  const state = { isFree: false, granted: 0, waits: 0, releases: 0, released: [], mayRelease: null };
  state.answer = async ({ path, body, gone }) => {
    if (path.endsWith("/release")) {
      state.releases += 1;
      await state.mayRelease;
      return state.released.push(body.lease), [200, {}];
    }
    state.waits += 1;
    if (body.wait_ms) await until(() => state.isFree);
    if (!state.isFree) return [409, { code: "lock-held", retryable: true }];
    state.granted += 1;
    const [lease, token] = [`l${state.granted}`, String(state.granted)];
    return [200, { lease, token, expires_in_ms: 30_000 }];
  };
  return state;
}

test("one lock object has one holder at a time", async (t) => {
  const state = locks();
  const lock = new Client(await stub(t, state.answer)).lock("a");
  const isInUse = (error) => error.code === "lock-held" && /another lock object/.test(error.hint);
  const first = lock.acquire();
  await until(() => state.waits);
  // A check before the grant does not abort the signal of the grant.
  assert.throws(() => lock.check(), (error) => error.code === "lock-lost");
  await assert.rejects(lock.acquire(), isInUse);
  state.isFree = true;
  await first;
  assert.deepEqual([lock.token, lock.lost.aborted], [1n, false]);
  await assert.rejects(lock.run(() => {}), isInUse);
  let release;
  state.mayRelease = new Promise((resolve) => (release = resolve));
  const { lost } = lock;
  const released = lock.release();
  await until(() => state.releases);
  await assert.rejects(lock.acquire(), isInUse);
  release();
  await released;
  assert.ok(lost.aborted);
  await lock.run(() => assert.deepEqual([lock.token, lock.lost.aborted], [2n, false]));
  assert.deepEqual(state.released, ["l1", "l2"]);
});

test("a lock whose acquisition failed is free", async (t) => {
  const state = locks();
  const lock = new Client(await stub(t, state.answer)).lock("a", { wait: 0 });
  await assert.rejects(lock.acquire(), (error) => error.code === "lock-held" && !error.hint);
  state.isFree = true;
  await lock.run(() => assert.ok(lock.check() > 0));
});

test("a grant whose response a cancelled wait has cut off is released", async (t) => {
  const [nonces, released] = [[], []];
  const url = await stub(t, async ({ path, body, gone }) => {
    if (path.endsWith("/release")) return released.push(body.lease), [200, {}];
    nonces.push(body.nonce);
    if (body.wait_ms) return await gone, [200, null];
    return [200, { lease: "l", token: "7", expires_in_ms: 30_000 }];
  });
  const stop = new AbortController();
  const waiting = new Client(url).lock("a", { signal: stop.signal }).acquire();
  await until(() => nonces.length);
  stop.abort(new RangeError("enough"));
  await assert.rejects(waiting, RangeError);
  await until(() => released.length);
  assert.deepEqual(released, ["l"]);
  assert.deepEqual(nonces, [nonces[0], nonces[0]]);
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
  let drawn = 1;
  // Each draw requests a range, unless a request is on its way or a pause has begun.
  await until(() => (ranges.tryNext(), ++drawn && state.refused >= 2));
  for (; drawn < 900; drawn++) {
    await ranges.next();
    if (drawn % 20 === 0) await sleep(5);
  }
  assert.equal(state.refused, 2, "with and without the grant");
  await ranges.take(1000 - drawn);
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
  let [grants, arrived, answerLate] = [0, 0, null];
  const late = new Promise((resolve) => (answerLate = resolve));
  const url = await stub(t, async (request) => {
    if (request.method === "POST" && ++grants === 2) await late;
    return state.answer(request);
  });
  const counting = async (target, options) => {
    const response = await fetch(target, options);
    if (options.method === "POST") arrived += 1;
    return response;
  };
  const ranges = new Client(url, { fetch: counting }).ranges("a", 10, 1);
  assert.deepEqual(await ranges.take(2), [1n, 2n]);
  await ranges.close();
  answerLate();
  await until(() => arrived === 2);
  // No value of the response may come while it is read.
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
      await until(() => waits[0].isGone && waits[1].isGone);
      return [200, { lease: "l", token: "7", expires_in_ms: 30_000 }];
    }
    await gone;
    wait.isGone = true;
    return [200, null];
  });
  const usual = { ...REPEAT };
  t.after(() => Object.assign(REPEAT, usual));
  Object.assign(REPEAT, { afterMs: 2000, overlapMs: 1000 });
  const lock = await new Client(url).lock("a").acquire();
  assert.equal(lock.token, 7n);
  assert.deepEqual(waits.map((wait) => wait.before), [undefined, false, false]);
  assert.equal(new Set(waits.map((wait) => wait.nonce)).size, 1);
  assert.ok(waits[0].waitMs - waits[2].waitMs >= 3500);
  await lock.release();
});

test("a dropped generator stops renewing, and releases nothing", async (t) => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc");
  const calls = [];
  const begins = Date.now() - LAYOUT.epoch_ms;
  const url = await stub(t, ({ method }) => {
    calls.push(method);
    const lease = { id: 1, lease: "1", from_tick: String(begins), fence_tick: String(begins + 60_000) };
    return [200, { ...lease, renew_after_ms: 250, layout: LAYOUT }];
  });
  const dropped = await (async () => {
    const generator = new IdGenerator(new Client(url), "a");
    await generator.id();
    return new WeakRef(generator);
  })();
  await until(() => calls.includes("PUT"));
  await until(() => (collect(), dropped.deref() === undefined));
  // A renewal may be under way. Each next one would come within 250 ms.
  let [count, since] = [calls.length, performance.now()];
  await until(() => {
    if (calls.length !== count) [count, since] = [calls.length, performance.now()];
    return performance.now() - since > 1000;
  });
  assert.ok(!calls.includes("DELETE"));
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
