/** The library against three real nodes with TLS and tokens, which `clients/run` starts. */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";

import { Client, decode, IdGenerator, LockLost } from "../dist/index.js";
import { REPEAT } from "../dist/lock.js";
import { client as connect, connectOptions, control, fresh, SHORT, skip } from "./support.mjs";

const COUNT = SHORT ? 200_000 : 1_000_000;
const client = skip ? undefined : connect();
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const waitersOf = async (name) => (await client.call("lock", [name])).waiters.map((one) => one.owner);
const isUnique = (ids) => assert.equal(new Set(ids).size, ids.length);
const code = (code) => (error) => assert.equal(error.code, code) ?? true;

async function until(condition) {
  for (const end = Date.now() + 20_000; !(await condition()); await sleep(20)) {
    assert.ok(Date.now() < end, `not within 20 s: ${condition}`);
  }
}

/** Runs a part of a test while the leader is dead. */
async function withoutLeader(work) {
  await control("/kill/leader");
  try {
    return await work();
  } finally {
    await control("/start");
  }
}

test("IDs are unique over the kill of a leader", { skip }, async () => {
  const generators = [fresh("a"), fresh("b")].map((owner) => new IdGenerator(client, owner));
  await Promise.all(generators.map((one) => one.id()));
  const ids = await withoutLeader(async () => {
    const mint = async (generator) => {
      const mine = [];
      while (mine.length < COUNT / 2) mine.push(...(await generator.ids(1000)), await generator.id());
      return mine;
    };
    const remote = (async () => {
      const all = [];
      for (let i = 0; i < 20; i++) all.push(...(await client.ids(100)));
      return all;
    })();
    return Promise.all([...generators.map(mint), remote]);
  });
  for (const mine of ids) assert.ok(mine.every((id, i) => i === 0 || id > mine[i - 1]));
  isUnique(ids.flat());
  for (const generator of generators) assert.ok(await generator.close());
});

test("a process that is stopped past its window mints nothing of it", { skip }, async () => {
  const layout = await client.call("layout", ["default"]);
  const frozen = spawn(process.execPath, [new URL("mint.mjs", import.meta.url).pathname, fresh("f")]);
  try {
    const lines = createInterface({ input: frozen.stdout })[Symbol.asyncIterator]();
    const ids = [];
    const next = async () => ids.push(BigInt((await lines.next()).value));
    const ms = (id) => Number(id >> 22n) + layout.epoch_ms;
    while (ids.length < 100) await next();
    const { worker } = await client.decode(ids[0]);
    const fence = async () => {
      for await (const row of client.workers("default")) {
        if (row.id === worker) return layout.epoch_ms + Number(row.fence_tick);
      }
    };
    frozen.kill("SIGSTOP");
    while (Date.now() <= (await fence()) + 500) await sleep(200);
    const fenceMs = await fence();
    const takers = [1, 2, 3].map(() => new IdGenerator(client, fresh("taker")));
    const others = (await Promise.all(takers.map((one) => one.ids(5000)))).flat();
    const resumedMs = Date.now() - 100;
    frozen.kill("SIGCONT");
    const until = Date.now() + 10_000;
    while (ms(ids.at(-1)) < resumedMs + 200 && Date.now() < until) await next();
    others.push(...(await Promise.all(takers.map((one) => one.ids(5000)))).flat());
    isUnique([...ids, ...others]);
    assert.deepEqual(ids.filter((id) => ms(id) >= fenceMs && ms(id) < resumedMs), []);
    await Promise.all(takers.map((one) => one.close()));
  } finally {
    frozen.kill("SIGKILL");
  }
});

test("clock steps are waited for or refused", { skip }, async () => {
  let step = 0;
  const generator = new IdGenerator(client, fresh("clock"), "default", { wallMs: () => Date.now() + step });
  const ids = await generator.ids(10);
  step = -30;
  ids.push(await generator.id());
  step = -20_000;
  await assert.rejects(generator.id(), code("clock-behind"));
  step = 20_000;
  await assert.rejects(generator.id(), code("clock-jumped"));
  step = 0;
  ids.push(...(await generator.ids(10)));
  isUnique(ids);
  await generator.close();
});

test("a closed generator returns its worker", { skip }, async () => {
  const [owner, workers] = [fresh("owner"), new Set()];
  for (let i = 0; i < 3; i++) {
    const generator = new IdGenerator(client, owner);
    await generator.ids(10);
    workers.add(generator.worker);
    assert.ok(await generator.close());
    await assert.rejects(generator.id(), code("closed"));
  }
  assert.equal(workers.size, 1);
});

test("what is closed keeps no timer, so that a process can end", { skip }, async () => {
  const timers = () => process.getActiveResourcesInfo().filter((one) => one === "Timeout").length;
  const before = timers();
  const generator = new IdGenerator(client, fresh("timer"));
  const name = fresh("timer");
  await client.create(name, "segment");
  const ranges = client.ranges(name);
  await Promise.all([generator.id(), ranges.next()]);
  await Promise.all([generator.close(), ranges.close()]);
  assert.equal(timers(), before);
});

test("a layout that does not exist is refused at once", { skip }, async () => {
  const generator = new IdGenerator(client, "a", fresh("none"), { patience: 60 });
  await assert.rejects(generator.id(), code("not-found"));
  await generator.close();
});

test("sequences and ranges", { skip }, async () => {
  const [name, key] = [fresh("order"), fresh("key")];
  await client.create(name, "strict");
  assert.equal(await client.next(name), 1n);
  assert.deepEqual(await client.next(name, 3), [2n, 3n, 4n]);
  const keyed = () => client.next(name, 2, { idempotencyKey: key });
  assert.deepEqual(await keyed(), await keyed());
  await client.advance(name, 100n);
  assert.equal(await client.next(name), 100n);
  await assert.rejects(client.next(fresh("none")), code("not-found"));
  const segment = fresh("range");
  await client.create(segment, "segment");
  const values = [];
  for (let i = 0; i < 2; i++) {
    const ranges = client.ranges(segment, 1000);
    for (let j = 0; j < 2500; j++) values.push(await ranges.next());
    values.push(...(await ranges.take(2000)));
    await ranges.close();
  }
  assert.deepEqual(values, Array.from({ length: 9000 }, (_, i) => BigInt(i + 1)));
});

test("a repeated request takes no second value over the kill of a leader", { skip }, async () => {
  const name = fresh("strict");
  await client.create(name, "strict");
  const values = [];
  await withoutLeader(async () => {
    const until = Date.now() + 30_000;
    while (values.length < 50 && Date.now() < until) {
      const idempotencyKey = fresh("key");
      for (let got = false; !got && Date.now() < until; ) {
        try {
          values.push(await client.next(name, undefined, { idempotencyKey }));
          got = true;
        } catch (error) {
          assert.ok(error.retryable || error.code === "outcome-unknown", error);
          await sleep(100);
        }
      }
    }
  });
  assert.deepEqual(values, Array.from({ length: 50 }, (_, i) => BigInt(i + 1)));
});

test("a lock excludes and its token grows", { skip }, async () => {
  const name = fresh("lock");
  const one = await client.lock(name, { ttl: 5, owner: "one" }).acquire();
  assert.ok(one.check() > 0);
  await assert.rejects(client.lock(name, { wait: 0 }).acquire(), code("lock-held"));
  assert.equal((await client.verifyLock(name, one.token)).owner, "one");
  const waiting = client.lock(name, { ttl: 5, wait: 10 });
  const acquired = waiting.acquire();
  await until(async () => (await waitersOf(name)).length === 1);
  await one.release();
  await acquired;
  assert.ok(waiting.token > one.token);
  assert.throws(() => one.check(), LockLost);
  await waiting.release();
  assert.ok(waiting.lost.aborted);
});

test("a wait for a lock that is sent again keeps its place", { skip }, async (t) => {
  const usual = { ...REPEAT };
  t.after(() => Object.assign(REPEAT, usual));
  Object.assign(REPEAT, { afterMs: 1000, overlapMs: 1500 });
  const held = await client.lock(fresh("lock"), { ttl: 10 }).acquire();
  const waiters = () => waitersOf(held.name);
  const order = [];
  const wait = (owner) => client.lock(held.name, { ttl: 5, owner }).run(() => order.push(owner));
  const first = wait("one");
  await until(async () => (await waiters()).length === 1);
  const second = wait("two");
  await until(async () => (await waiters()).length === 2);
  for (const end = Date.now() + 4000; Date.now() < end; await sleep(20)) {
    assert.deepEqual(await waiters(), ["one", "two"]);
  }
  await held.release();
  await Promise.all([first, second]);
  assert.deepEqual(order, ["one", "two"]);
});

test("a lost lock is noticed in time", { skip }, async () => {
  const broken = await client.lock(fresh("lock"), { ttl: 3 }).acquire();
  const began = Date.now();
  await client.breakLock(broken.name);
  while (!broken.lost.aborted && Date.now() < began + 3000) await sleep(20);
  assert.throws(() => broken.check(), (error) => error.reason === "taken-away");
  let isCut = false;
  const { fetch } = connectOptions();
  const cut = connect({ fetch: (...call) => (isCut ? Promise.reject(new Error("cut")) : fetch(...call)) });
  const lock = await cut.lock(fresh("lock"), { ttl: 2 }).acquire();
  isCut = true;
  const lost = Date.now();
  while (!lock.lost.aborted && Date.now() < lost + 3000) await sleep(20);
  assert.throws(() => lock.check(), (error) => error.reason === "ran-out");
  const other = await client.lock(lock.name, { wait: 5 }).acquire();
  assert.ok(other.token > lock.token);
  await other.release();
});

test("a lock survives the kill of a leader", { skip }, async () => {
  await client.lock(fresh("lock"), { ttl: 6 }).run(async (lock) =>
    withoutLeader(async () => {
      const until = Date.now() + (SHORT ? 4000 : 7000);
      while (Date.now() < until) {
        assert.ok(lock.check() > 0);
        await sleep(100);
      }
    }),
  );
});

test("work is done once", { skip }, async () => {
  const [key, done] = [fresh("once"), []];
  const fail = () => Promise.reject(new RangeError("no"));
  await assert.rejects(client.once(key, fail, { ttl: 60 }), RangeError);
  for (let i = 0; i < 3; i++) {
    const made = await client.once(key, (turn) => ({ made: done.push(turn.attempt) }), { ttl: 60 });
    assert.deepEqual(made, { made: 1 });
  }
  assert.deepEqual(done, [2]);
});

test("work is not repeated because its result cannot be stored", { skip }, async () => {
  for (const [result, reason] of [[1n, "not JSON"], ["x".repeat(100_000), "65536"]]) {
    const [key, done] = [fresh("once"), []];
    const isNotKept = (error) => error.code === "not-kept" && error.message.includes(reason);
    for (let i = 0; i < 2; i++) {
      await assert.rejects(client.once(key, () => done.push(1) && result, { wait: 5 }), isNotKept);
    }
    assert.deepEqual(done, [1]);
  }
});

test("the first caller gets the result as later ones do", { skip }, async () => {
  const key = fresh("once");
  for (let i = 0; i < 2; i++) {
    const made = await client.once(key, () => ({ at: new Date(0), none: undefined }));
    assert.deepEqual(made, { at: "1970-01-01T00:00:00.000Z" });
  }
});

test("a wait for a lock ends with its signal", { skip }, async () => {
  const held = await client.lock(fresh("lock"), { ttl: 10 }).acquire();
  const stop = new AbortController();
  const waiting = client.lock(held.name, { signal: stop.signal }).acquire();
  const rejected = assert.rejects(waiting, RangeError);
  await until(async () => (await waitersOf(held.name)).length === 1);
  stop.abort(new RangeError("enough"));
  await rejected;
  await held.release();
});

test("the release of a lost lock is one short attempt and no error", { skip }, async () => {
  let isCut = false;
  let sent = 0;
  const { fetch } = connectOptions();
  const fail = () => Promise.reject(new Error(`cut ${++sent}`));
  const cut = connect({ fetch: (...call) => (isCut ? fail() : fetch(...call)) });
  const lock = await cut.lock(fresh("lock"), { ttl: 1 }).acquire();
  isCut = true;
  await until(() => lock.lost.aborted);
  sent = 0;
  await lock.release();
  assert.ok(sent <= 3, `${sent} requests`);
});

test("a token file, and a hint about TLS", { skip }, async () => {
  const file = join(mkdtempSync(join(tmpdir(), "seqd-")), "token");
  writeFileSync(file, `${process.env.SEQD_TOKEN}\n`);
  const token = process.env.SEQD_TOKEN;
  try {
    delete process.env.SEQD_TOKEN;
    process.env.SEQD_TOKEN_FILE = file;
    assert.ok((await connect().id()) > 0n);
  } finally {
    process.env.SEQD_TOKEN = token;
    delete process.env.SEQD_TOKEN_FILE;
    rmSync(dirname(file), { recursive: true });
  }
  await assert.rejects(new Client().id(), /hint: a node was reached, but TLS failed/);
  // A `fetch` with certificates implies https.
  const bare = process.env.SEQD_ENDPOINTS.replaceAll("https://", "");
  assert.ok((await new Client(bare, connectOptions()).id()) > 0n);
});

test("tokens, and the other operations", { skip }, async () => {
  await assert.rejects(connect({ token: "x".repeat(40) }).id(), code("unauthorized"));
  isUnique(await client.uuids(10));
  assert.equal((await client.timestamps(3)).count, 3);
  const [issued] = (await client.issueTokens(1, 60)).tokens;
  const token = issued.token ?? issued;
  await client.consumeToken(token);
  await assert.rejects(client.consumeToken(token), code("token-used"));
  const id = await client.id();
  assert.equal(decode((await client.decode(id)).base62, "b62"), id);
  assert.equal((await client.cluster()).quorum.voters, 3);
  assert.throws(() => new Client("ftp://n1"), RangeError);
});
