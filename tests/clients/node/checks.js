// Named checks of one client program, as in `python/checks.py`.

import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { isDeepStrictEqual, inspect } from "node:util";

const env = process.env;
export const REDIS = env.REDIS ?? "127.0.0.1:6379";
export const NODES = (env.REDIS_ALL ?? REDIS).split(",").map((address) => {
  const [host, port] = address.split(":");
  return { host, port: Number(port) };
});
export const TARGET = env.TARGET ?? "seqd";
export const RUN = env.RUN ?? `r${process.pid}`;

// Deletes a lock that has the value.
export const RELEASE =
  'if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) ' +
  "else return 0 end";

let failures = 0;

export function check(name, passed, value = "") {
  if (!passed) failures += 1;
  const text = typeof value === "string" ? value : inspect(value, { breakLength: Infinity });
  console.log(`${passed ? "ok" : "FAILED"} ${name}: ${text.split(/\s+/).join(" ").slice(0, 200)}`);
}

export function equal(name, got, expected) {
  const passed = isDeepStrictEqual(got, expected);
  check(name, passed, passed ? got : `${inspect(got)}, expected ${inspect(expected)}`);
}

/** Checks that the promise is rejected with `text` in its message. */
export async function rejects(name, promise, text = "") {
  try {
    check(name, false, `returned ${inspect(await promise)}`);
  } catch (error) {
    check(name, error.message.includes(text), error.message);
  }
}

export async function until(condition, limitMs = 10_000) {
  for (const end = Date.now() + limitMs; Date.now() < end; await sleep(20)) {
    if (await condition()) return true;
  }
  return false;
}

/** Runs `criticalSection(work, contender)` in tasks and checks that `work` never overlaps. */
export async function contend(name, criticalSection, contenders = 6, turns = 4) {
  let inside = 0,
    overlaps = 0,
    done = 0;
  const work = async () => {
    inside += 1;
    if (inside > 1) overlaps += 1;
    await sleep(10);
    done += 1;
    inside -= 1;
  };
  const errors = [];
  await Promise.all(
    Array.from({ length: contenders }, async (_, contender) => {
      for (let turn = 0; turn < turns; turn++) await criticalSection(work, contender);
    }).map((task) => task.catch((error) => errors.push(error.message))),
  );
  const all = contenders * turns;
  const summary = `${contenders} tasks, ${done} of ${all} turns, ${overlaps} overlaps`;
  check(
    name,
    done === contenders * turns && overlaps === 0 && errors.length === 0,
    `${summary} ${errors[0] ?? ""}`,
  );
}

/** Checks the examples of `differences.tsv` with `call(words)`, on a counter and an unused name. */
export async function checkDifferences(call, counter, unused) {
  const [heads, ...rows] = readFileSync(new URL("../differences.tsv", import.meta.url), "utf8")
    .trimEnd()
    .split("\n")
    .map((line) => line.split("\t"));
  for (const row of rows) {
    const example = row[heads.indexOf("example")];
    if (example === "-") continue;
    const words = example.replace("COUNTER", counter).replace("UNUSED", unused).split(" ");
    const reply = await call(words).then(inspect, (error) => `-${error.message}`);
    check(
      `differs: ${words.join(" ")}`,
      new RegExp(`^(${row[heads.indexOf("seqd")]})$`).test(reply),
      reply,
    );
  }
}

export function done() {
  process.exit(failures === 0 ? 0 : 1);
}
