/** The client of one cluster. */

import { SeqdError, type Json } from "./errors.js";
import { Lock, type LockOptions } from "./lock.js";
import { Ranges } from "./ranges.js";
import { ROUTES, type Operation, type Route } from "./routes.js";
import { asError, sleep } from "./time.js";
import { Transport, type Fetch } from "./transport.js";

const AGAIN_MS = 300;
/** The shortest pause, as a response may request one of 0 ms. */
const LEAST_AGAIN_MS = 20;
const MOST_ATTEMPTS = 5;
/** The only field of the result of a key whose work was done, but whose result cannot be stored. */
const NOT_KEPT = "seqd_result_not_kept";

export interface ClientOptions {
  /** SEQD_TOKEN by default, or in Node the text of the file SEQD_TOKEN_FILE. */
  token?: string;
  /** The time that the endpoints of one request share, in seconds: 3 by default. */
  timeout?: number;
  /** The owner of locks, for display. */
  owner?: string;
  /** Another `fetch`, such as that of `seqd/node` with certificates. */
  fetch?: Fetch;
  /** `https` for endpoints without a scheme: the default with `nodeFetch`. */
  secure?: boolean;
}

export interface CallOptions {
  /** How long the node may wait before it responds, in seconds. */
  wait?: number;
  /** The longest time of all attempts, in seconds. */
  limit?: number;
  /** A key of your own, with which the request may be sent again. */
  idempotencyKey?: string;
  ifMatch?: string;
  dryRun?: boolean;
  signal?: AbortSignal | undefined;
}

/** What the work of `once` may depend on. */
export interface Turn {
  /** A fencing token, greater than that of every earlier claim. */
  token: bigint;
  /** Above 1 if earlier claims ended without a result: the work may have been done in part. */
  attempt: number;
}

export interface OnceOptions {
  /** How long the result is kept, in seconds: a day by default. */
  ttl?: number;
  /** How long to wait for another caller that performs the work: 60 seconds by default. */
  wait?: number;
  /** The longest time of the work: 60 seconds by default. */
  claimTtl?: number;
  /** Identifies the work. Another fingerprint for the same key is refused. */
  fingerprint?: string;
}

function environment(name: string): string | undefined {
  return (globalThis as any).process?.env?.[name] || undefined;
}

function tokenOfEnvironment(): string | undefined {
  const [token, file] = [environment("SEQD_TOKEN"), environment("SEQD_TOKEN_FILE")];
  if (token || !file) return token;
  // Not an import, because this module also runs in browsers.
  const fs = (globalThis as any).process.getBuiltinModule?.("node:fs");
  if (!fs) throw new RangeError("SEQD_TOKEN_FILE needs Node 20.16 or later: set SEQD_TOKEN");
  return fs.readFileSync(file, "utf8").trim();
}

/** Sends requests to a cluster. Integers that may exceed 2^53 are `bigint`. */
export class Client {
  readonly owner: string;
  readonly #transport: Transport;

  /** `endpoints` is a list, or a text with commas, of HOST, HOST:PORT or URLs; SEQD_ENDPOINTS if it
   * is left out, and 127.0.0.1:7400 without that. */
  constructor(endpoints?: string | string[], options: ClientOptions = {}) {
    const given = endpoints ?? environment("SEQD_ENDPOINTS") ?? "127.0.0.1:7400";
    const list = (typeof given === "string" ? given.split(",") : given).map((one) => one.trim());
    const token = options.token ?? tokenOfEnvironment();
    const secure = options.secure ?? options.fetch?.secure ?? false;
    this.owner = options.owner ?? `js-${crypto.randomUUID().slice(0, 8)}`;
    this.#transport = new Transport(
      list.filter(Boolean), token, (options.timeout ?? 3) * 1000, secure,
      options.fetch ?? ((url, init) => globalThis.fetch(url, init)),
    );
  }

  /** Any operation of the interface, with its path parameters and fields. Returns the JSON of the
   * response, in which integers that may exceed 2^53 are strings. */
  call(operation: Operation, path: readonly unknown[] = [], fields: Json = {}, options: CallOptions = {}): Promise<any> {
    const [method, template, repeat, queryFields, bodyFields]: Route = ROUTES[operation];
    let at = 0;
    const target = template.replace(/\{\w+\}/g, () => encodeURIComponent(String(path[at++])));
    const given: Json = { ...fields };
    const query: Json = {};
    for (const name of queryFields.split(" ")) {
      if (name in given) query[name] = given[name];
      delete given[name];
    }
    if (options.dryRun) query.dry_run = 1;
    if (repeat === "with-nonce") given.nonce ??= crypto.randomUUID();
    const known = bodyFields.split(" ");
    const body: Json = {};
    for (const [name, value] of Object.entries(given)) {
      if (value === undefined || (value === null && name !== "result")) continue;
      if (!known.includes(name)) throw new TypeError(`${operation} has no field ${name}`);
      body[name] = typeof value === "bigint" ? String(value) : value;
    }
    const headers: Record<string, string> = {};
    if (options.idempotencyKey) headers["idempotency-key"] = options.idempotencyKey;
    if (options.ifMatch) headers["if-match"] = options.ifMatch;
    return this.#transport.send({
      method,
      path: target,
      query,
      body: bodyFields ? body : undefined,
      repeatable: repeat !== "never" || options.idempotencyKey !== undefined,
      waitMs: (options.wait ?? 0) * 1000,
      ...(options.limit === undefined ? {} : { limitMs: options.limit * 1000 }),
      headers,
      signal: options.signal,
    });
  }

  /** All items of a list, over its pages. */
  async *items(operation: Operation, fields: Json = {}): AsyncGenerator<Json> {
    let cursor: string | null = null;
    do {
      const page: Json = await this.call(operation, [], { ...fields, cursor });
      yield* page.items;
      if (page.next_cursor && page.next_cursor === cursor) {
        throw new SeqdError("bad-answer", "the cursor of the next page is that of the same page");
      }
      cursor = page.next_cursor ?? null;
    } while (cursor);
  }

  /** One snowflake ID, minted by the answering node. */
  async id(layout?: string): Promise<bigint> {
    return BigInt((await this.call("id", [], { layout })).id);
  }

  /** `count` IDs, 1 to 10,000, increasing, minted by the answering node. */
  async ids(count: number, layout?: string): Promise<bigint[]> {
    return (await this.call("ids", [], { count, layout })).ids.map(BigInt);
  }

  /** The time, worker, sequence and holder of an ID. */
  decode(id: bigint | string, fields: { layout?: string; format?: string } = {}): Promise<Json> {
    return this.call("id_parts", [id], fields);
  }

  async uuid(version: 4 | 7 = 7): Promise<string> {
    return (await this.call("uuid", [], { version })).uuid;
  }

  async uuids(count: number, version: 4 | 7 = 7): Promise<string[]> {
    return (await this.call("uuids", [], { count, version })).uuids;
  }

  /** Numbers that increase over all nodes: milliseconds << 18 and a logical counter. */
  async timestamps(count = 1): Promise<{ first: bigint; last: bigint; count: number }> {
    const answer = await this.call("timestamps", [], { count });
    return { first: BigInt(answer.first), last: BigInt(answer.last), count: answer.count };
  }

  /** Creates a sequence. If an equal one exists, it is returned. */
  create(name: string, mode?: "segment" | "strict" | "ordered", definition: Json = {}): Promise<Json> {
    return this.call("create_sequence", [name], { mode, ...definition });
  }

  sequence(name: string, fields: { stale?: boolean } = {}): Promise<Json> {
    return this.call("sequence", [name], fields);
  }

  sequences(prefix?: string): AsyncGenerator<Json> {
    return this.items("sequences", { prefix });
  }

  updateSequence(name: string, change: Json, ifMatch?: string): Promise<Json> {
    return this.call("update_sequence", [name], change, ifMatch ? { ifMatch } : {});
  }

  deleteSequence(name: string): Promise<Json> {
    return this.call("delete_sequence", [name]);
  }

  /** Moves a sequence forward. */
  advance(name: string, to: bigint): Promise<Json> {
    return this.call("advance", [name], { to });
  }

  /** The next value of a sequence, or with a count an array of values. Without `idempotencyKey`, a
   * lost response is `outcome-unknown` and may cost values. */
  next(name: string, count?: undefined, options?: CallOptions): Promise<bigint>;
  next(name: string, count: number, options?: CallOptions): Promise<bigint[]>;
  async next(name: string, count?: number, options: CallOptions = {}): Promise<bigint | bigint[]> {
    const answer = await this.call("next", [name], { count: count ?? 1 }, options);
    const step = BigInt(answer.increment);
    const values: bigint[] = [];
    for (const run of answer.ranges) {
      for (let i = 0, value = BigInt(run.first); i < run.count; i++, value += step) values.push(value);
    }
    return count === undefined ? values[0]! : values;
  }

  /** Values of a segment sequence from memory, `size` per request. */
  ranges(name: string, size = 10_000, patience = 5): Ranges {
    return new Ranges(this, name, size, patience);
  }

  workers(layout?: string): AsyncGenerator<Json> {
    return this.items("workers", { layout });
  }

  /** A lock, not yet acquired. It is renewed at a third of its `ttl`. */
  lock(name: string, options: LockOptions = {}): Lock {
    return new Lock(this, name, options);
  }

  locks(prefix?: string): AsyncGenerator<Json> {
    return this.items("locks", { prefix });
  }

  /** Checks with a linearizable read whether a fencing token holds a lock. */
  verifyLock(name: string, token: bigint, owner?: string): Promise<Json> {
    return this.call("verify_lock", [name], { token, owner });
  }

  /** Ends the hold of another client (scope admin). */
  breakLock(name: string): Promise<Json> {
    return this.call("break_lock", [name]);
  }

  /** Performs `work` unless it was already performed for this key, and returns its result to all
   * callers: JSON of at most 16 KiB, as `JSON.stringify` writes it, so that a Date becomes a text.
   * If it cannot be written, such as a `bigint`, all callers get `not-kept`. */
  async once<T>(key: string, work: (turn: Turn) => Promise<T> | T, options: OnceOptions = {}): Promise<T> {
    const begun = await this.#begin(key, options);
    if (begun.state !== "first") {
      const reason = begun.result?.[NOT_KEPT];
      if (reason) throw new SeqdError("not-kept", `the work was done, but its result ${reason}`);
      return begun.result;
    }
    let value: T;
    try {
      value = await work({ token: BigInt(begun.token ?? 0), attempt: begun.attempt });
    } catch (error) {
      // Otherwise the next caller would wait until the claim expires.
      await this.call("abandon_key", [key], { claim: begun.claim }).catch(() => {});
      throw error;
    }
    return this.#complete(key, begun.claim, value);
  }

  async #begin(key: string, options: OnceOptions): Promise<Json> {
    const until = performance.now() + (options.wait ?? 60) * 1000;
    const fields = {
      ttl_ms: Math.round((options.ttl ?? 86_400) * 1000),
      claim_ttl_ms: Math.round((options.claimTtl ?? 60) * 1000),
      fingerprint: options.fingerprint ?? "",
      nonce: crypto.randomUUID(),
    };
    for (;;) {
      try {
        return await this.call("begin_key", [key], fields);
      } catch (failed) {
        const error = asError(failed);
        const left = until - performance.now();
        if (!(error.retryable || error.code === "outcome-unknown") || left <= 0) throw error;
        await sleep(Math.min(left, Math.max(error.retryAfterMs ?? AGAIN_MS, LEAST_AGAIN_MS)));
      }
    }
  }

  /** Stores the result, and returns it as every later caller gets it. A key whose result cannot be
   * stored is completed nevertheless, because its work must not be done again. */
  async #complete(key: string, claim: string, result: unknown): Promise<any> {
    let reason: string;
    try {
      const value = JSON.parse(JSON.stringify(result ?? null));
      const refusal = await this.#store(key, claim, value);
      if (!refusal) return value;
      reason = `was refused: ${refusal.detail}`;
    } catch (error) {
      if (error instanceof SeqdError) throw error;
      reason = `is not JSON: ${(error as Error).message}`;
    }
    // The cluster always has room for a short result, but the token may have been revoked.
    const isOpen = await this.#store(key, claim, { [NOT_KEPT]: reason.slice(0, 100) });
    const hint = isOpen
      ? "its key is still open: another caller begins when the claim expires"
      : "later callers get this error too; return JSON of at most 16 KiB";
    throw new SeqdError("not-kept", `the work was done, but its result ${reason}`, hint);
  }

  /** Completes the key, which is safe to repeat, or returns why the cluster refuses the result. */
  async #store(key: string, claim: string, result: unknown): Promise<SeqdError | null> {
    for (let attempt = 1; ; attempt++) {
      try {
        await this.call("complete_key", [key], { claim, result });
        return null;
      } catch (failed) {
        const error = asError(failed);
        const done = "the work was done, but";
        if (error.code === "lease-lost") {
          throw new SeqdError("took-too-long", `${done} its claim had expired: ${error.message}`);
        }
        const status = error.status ?? 0;
        if (status >= 400 && status < 500 && !error.retryable) return error;
        if (attempt === MOST_ATTEMPTS) {
          const detail = `${done} it is unknown whether its result was stored: ${error.message}`;
          throw new SeqdError("outcome-unknown", detail);
        }
      }
      await sleep(AGAIN_MS);
    }
  }

  issueTokens(count = 1, ttl?: number): Promise<Json> {
    const ttlMs = ttl === undefined ? undefined : Math.round(ttl * 1000);
    return this.call("issue_tokens", [], { count, ttl_ms: ttlMs });
  }

  /** Throws `token-used` unless this call, or one with the same nonce, is the first. */
  consumeToken(token: string, nonce?: string): Promise<Json> {
    return this.call("consume_token", [token], { nonce });
  }

  /** The cluster as the answering node sees it. */
  cluster(): Promise<Json> {
    return this.call("cluster");
  }
}
