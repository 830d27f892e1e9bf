/** The decisions of the Rust crate, in `clients/vectors.json`. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { Client, decode, encode, Hold, Layout, Minter, ROUTES, SeqdError } from "../dist/index.js";
import { node, OPENAPI, VECTORS } from "./support.mjs";

// They do not answer with JSON, or are for probes and browsers.
const NOT_HERE = ["snapshot", "metrics", "openapi", "code_page", "live", "ready"];
const GOOD = {
  does: "answer",
  status: 200,
  headers: {},
  body: JSON.stringify({ id: "7", ranges: [{ first: "7", count: 1 }], increment: "1" }),
};

test("layouts and the texts of IDs", () => {
  for (const row of VECTORS.layouts) {
    const layout = new Layout(row.layout);
    for (const time of row.times) {
      const tick = layout.tickAt(time.unix_ms);
      const known = tick >= 0 && tick <= layout.maxTick ? String(tick) : undefined;
      assert.equal(known, time.tick);
    }
    for (const one of row.ids) {
      const id = BigInt(one.id);
      const parts = layout.unpack(id);
      assert.deepEqual(parts, {
        tick: Number(one.tick),
        workerId: one.worker_id,
        datacenter: one.datacenter,
        worker: one.worker,
        sequence: one.sequence,
        unixMs: one.unix_ms,
      });
      assert.equal(layout.pack(parts.tick, parts.workerId, parts.sequence), id);
      for (const [form, name] of [["hex", "hex"], ["b62", "base62"], ["crockford", "crockford"]]) {
        assert.equal(encode(id, form), one[name]);
        assert.equal(decode(one[name], form), id);
      }
    }
  }
});

function step(minter, layout, step) {
  const { do: does, at_ms: at, wall_ms: wall } = step;
  if (does === "granted") {
    minter.granted(layout, step.worker_id, Number(step.from_tick), Number(step.fence_tick));
  } else if (does === "renewed") {
    minter.renewed(Number(step.fence_tick));
  } else if (does === "lost") {
    minter.lost();
  } else if (does === "close") {
    assert.equal(String(minter.close()), step.last_tick);
  } else if (does === "read") {
    const read = minter.read(at, wall);
    assert.equal(read.clock ?? read.refused ?? "wait", step.clock);
  } else {
    const one = step.count === 1 ? minter.one(wall) : null;
    const mint = one === null ? minter.mint(at, wall, step.count) : { first: one, step: 1n, count: 1 };
    assert.equal(mint.waitMs, step.wait_ms);
    assert.equal(mint.refused, step.refused);
    const ids = Array.from({ length: mint.count ?? 0 }, (_, i) => mint.first + BigInt(i) * mint.step);
    assert.deepEqual(ids.map(String), step.ids ?? []);
  }
}

for (const script of VECTORS.leases) {
  test(`lease: ${script.name}`, () => {
    const minter = new Minter({
      maxBackwardWaitMs: script.max_backward_wait_ms,
      maxForwardJumpMs: script.max_forward_jump_ms,
      onRollback: script.on_rollback,
    });
    for (const one of script.steps) step(minter, new Layout(script.layout), one);
  });
}

for (const script of VECTORS.locks) {
  test(`lock: ${script.name}`, () => {
    const hold = new Hold(script.ttl_ms);
    for (const step of script.steps) {
      if (["granted", "renewed"].includes(step.do)) hold.granted(step.sent_ms, step.expires_in_ms);
      else if (step.do === "refused") hold.refused(step.code);
      else if (hold.leftMs(step.at_ms)) assert.equal(hold.untilMs, step.until_ms);
      else assert.equal(hold.lost, step.lost);
    }
  });
}

test("retry decisions", async () => {
  for (const row of VECTORS.retries) {
    const words = `${JSON.stringify(row.node)} repeatable=${row.repeatable}`;
    const [first, second, alone] = [await node(row.node), await node(GOOD), await node(row.node)];
    const send = (...nodes) => {
      const client = new Client(nodes.map((one) => one.url), { timeout: 1.5 });
      return row.repeatable ? client.id() : client.next("a");
    };
    try {
      if (row.then === "next") assert.equal(await send(first, second), 7n, words);
      else await assert.rejects(send(first, second), SeqdError, words);
      assert.equal(second.requests, row.then === "next" ? 1 : 0, words);
      const error = await send(alone).catch((error) => error);
      assert.ok(error instanceof SeqdError, `${words}: ${error}`);
      const found = { code: error.code, retryable: error.retryable, retry_after_ms: error.retryAfterMs };
      assert.deepEqual(found, row.error, words);
    } finally {
      for (const one of [first, second, alone]) one.close();
    }
  }
});

test("the routes and their fields are those of the interface", () => {
  const rows = VECTORS.operations.filter((row) => !NOT_HERE.includes(row.id));
  assert.deepEqual(Object.keys(ROUTES).sort(), rows.map((row) => row.id).sort());
  for (const row of rows) {
    const [method, path, repeat, query, body] = ROUTES[row.id];
    assert.deepEqual([method, path, repeat], [row.method, row.path, row.repeat], row.id);
    const operation = OPENAPI.paths[path][method.toLowerCase()];
    assert.equal(operation.operationId, row.id);
    const inQuery = (operation.parameters ?? []).filter((one) => one.in === "query");
    const names = inQuery.map((one) => one.name).filter((name) => name !== "timeout_ms");
    assert.deepEqual(query.split(" ").filter(Boolean), names, row.id);
    const schema = operation.requestBody?.content?.["application/json"]?.schema;
    const fields = Object.keys(schema?.properties ?? {});
    assert.deepEqual(body.split(" ").filter(Boolean).sort(), fields.sort(), row.id);
  }
});
