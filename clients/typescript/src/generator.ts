/**
 * Mints IDs in this process with a worker that the cluster has leased to it.
 *
 * A background task takes the lease, renews it at a third of its window, and takes another one if
 * it is lost. A call sends no request. While the lease cannot be renewed, minting continues up to
 * the fence and is then refused.
 */

import type { Client } from "./client.js";
import { SeqdError, type Json } from "./errors.js";
import { Layout } from "./layout.js";
import { Minter, type Mint } from "./minter.js";
import { Alarm, asError, isForGood, monotonicMs, Pace, sleep, wallMs, within } from "./time.js";

/** The most IDs per call: 25 ms of the layout `default`. */
const MAX_COUNT = 100_000;
/** The clock is read at least this often, so that jumps are noticed. */
const READ_EVERY_MS = 1000;
const LEAST_RENEW_MS = 250;
const RELEASE_AGAIN_MS = 300;
/** The time within which a renewal counts as recent. */
const FRESH_MS = 1000;

const WORDS: Record<string, string> = {
  "no-lease": "there is no worker lease yet",
  "window-ended": "the window of the lease has ended",
  "clock-behind": "the wall clock is # ms behind",
  "clock-jumped": "the wall clock jumped # ms ahead; it is trusted after 5 steady seconds",
  "clock-ahead": "the wall clock is past the new window by # ms: it is ahead of the cluster's",
  "layout-exhausted": "the layout has no ticks left",
  closed: "the generator is closed",
};

export interface GeneratorOptions {
  datacenter?: number;
  /** How long a call waits for a tick, a lease or a free worker, in seconds: 5 by default. */
  patience?: number;
  /** `continue` mints in logical time, inside the window, after a clock step. */
  onRollback?: "refuse" | "continue";
  /** The wall clock, in milliseconds. */
  wallMs?: () => number;
}

/** The current state of a generator, for a health check. */
export interface GeneratorStatus {
  /** The whole worker field of the current lease, if there is one. */
  worker: number | null;
  /** The end of its window by the wall clock. */
  windowEnds: Date | null;
  /** The number of leases since the start; above one if a lease was lost. */
  leases: number;
  /** Why the last attempt to take or renew a lease failed. */
  error: SeqdError | null;
}

/** Ends the tasks of generators that are no longer reachable. They release nothing: the worker is
 * free after its window. */
const DROPPED = new FinalizationRegistry<Keeper>((keeper) => keeper.stop());

/**
 * Mints IDs of one layout under a worker lease. Call `close`, so that the worker is free at once. Do
 * not copy it to another worker thread: each creates its own.
 */
export class IdGenerator {
  readonly #keeper: Keeper;

  constructor(client: Client, owner: string, layout = "default", options: GeneratorOptions = {}) {
    this.#keeper = new Keeper(client, owner, layout, options);
    DROPPED.register(this, this.#keeper);
  }

  /** One ID, if no wait is needed. */
  tryId(): bigint | null {
    return this.#keeper.tryId();
  }

  /** One ID. */
  async id(): Promise<bigint> {
    return this.tryId() ?? (await this.#whileReachable(this.#keeper.id()));
  }

  /** `count` IDs, up to 100,000, increasing and of one worker. */
  ids(count: number): Promise<bigint[]> {
    return this.#whileReachable(this.#keeper.ids(count));
  }

  /** The current state, for a health check. */
  status(): GeneratorStatus {
    return this.#keeper.status();
  }

  /** The whole worker field of the current lease. */
  get worker(): number | null {
    return this.#keeper.worker;
  }

  /** Why the last attempt to take or renew a lease failed. */
  get error(): SeqdError | null {
    return this.#keeper.error;
  }

  /** Permanently ends the minting, then releases the worker with its last tick. Returns whether that
   * was confirmed; otherwise the worker stays taken until its window ends. */
  close(): Promise<boolean> {
    return this.#whileReachable(this.#keeper.close());
  }

  /** Keeps this object reachable while a call waits. */
  async #whileReachable<T>(call: Promise<T>): Promise<T> {
    try {
      return await call;
    } finally {
      void this.#keeper.worker;
    }
  }
}

/** The task of one generator, and what it shares with it. It does not refer to the generator, so
 * that a generator without an owner is collected. */
class Keeper {
  readonly #client: Client;
  readonly #request: Json;
  readonly #minter: Minter;
  readonly #wallMs: () => number;
  readonly #patienceMs: number;
  readonly #alarm = new Alarm();
  readonly #kept: Promise<void>;
  #waiters = new Set<() => void>();
  #isStopped = false;
  #isWoken = false;
  #lease: Json | null = null;
  #error: SeqdError | null = null;
  #renewAfterMs = 0;
  #leases = 0;
  #lastAttempt = -Infinity;

  constructor(client: Client, owner: string, layout: string, options: GeneratorOptions) {
    if (!owner || owner.length > 255 || /[\x00-\x1f\x7f]/.test(owner)) {
      throw new RangeError("an owner has 1 to 255 bytes without control characters");
    }
    this.#client = client;
    this.#request = { layout, owner, datacenter: options.datacenter };
    this.#minter = new Minter({ onRollback: options.onRollback ?? "refuse" });
    this.#wallMs = options.wallMs ?? wallMs;
    this.#patienceMs = (options.patience ?? 5) * 1000;
    this.#kept = this.#keep();
  }

  tryId(): bigint | null {
    const now = this.#wallMs();
    const id = this.#minter.one(now);
    if (id !== null) return id;
    const mint = this.#minter.mint(monotonicMs(), now, 1);
    return "first" in mint ? mint.first : null;
  }

  async id(): Promise<bigint> {
    return (await this.#run(1, performance.now() + this.#patienceMs)).first;
  }

  async ids(count: number): Promise<bigint[]> {
    if (!(count >= 1 && count <= MAX_COUNT)) {
      throw new RangeError(`the count must be 1 to ${MAX_COUNT}, not ${count}`);
    }
    const until = performance.now() + this.#patienceMs;
    let ids: bigint[] = [];
    let worker = -1;
    while (ids.length < count) {
      const run = await this.#run(count - ids.length, until);
      // IDs of two leases need not increase: the earlier ones are skipped.
      if (run.worker !== worker) [ids, worker] = [[], run.worker];
      for (let id = run.first, left = run.count; left > 0; left--, id += run.step) ids.push(id);
    }
    return ids;
  }

  status(): GeneratorStatus {
    const endsMs = this.#minter.isClosed ? null : this.#minter.endsMs;
    return {
      worker: endsMs === null ? null : this.worker,
      windowEnds: endsMs === null ? null : new Date(endsMs),
      leases: this.#leases,
      error: this.#error,
    };
  }

  get worker(): number | null {
    return this.#lease?.id ?? null;
  }

  get error(): SeqdError | null {
    return this.#error;
  }

  async #run(count: number, until: number): Promise<Extract<Mint, { count: number }>> {
    for (;;) {
      const now = this.#wallMs();
      const mint = this.#minter.mint(monotonicMs(), now, count);
      if ("first" in mint) return mint;
      const left = until - performance.now();
      if ("waitMs" in mint) {
        if (mint.waitMs > left) {
          const detail = `the ticks of the worker are used up; the next begins in ${mint.waitMs} ms`;
          throw new SeqdError("busy", detail, null, true);
        }
        await sleep(mint.waitMs);
        continue;
      }
      const aheadMs = mint.refused === "window-ended" ? this.#aheadMs(now) : null;
      if (aheadMs !== null) throw this.#refusal("clock-ahead", aheadMs);
      const mayCome = ["no-lease", "window-ended"].includes(mint.refused);
      if (!mayCome || left <= 0 || (this.#error && isForGood(this.#error))) {
        throw this.#refusal(mint.refused, mint.byMs);
      }
      this.#isWoken = true;
      this.#alarm.wake();
      await this.#attempted(left);
    }
  }

  /** How far the wall clock is past a window that was renewed a moment ago, and that has not ended by
   * the cluster's clock. */
  #aheadMs(wallMs: number): number | null {
    const isFresh = !this.#error && performance.now() - this.#lastAttempt < FRESH_MS;
    const { endsMs } = this.#minter;
    return isFresh && endsMs !== null && wallMs >= endsMs ? wallMs - endsMs : null;
  }

  #attempted(leftMs: number): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        clearTimeout(timer);
        this.#waiters.delete(done);
        resolve();
      };
      const timer = setTimeout(done, leftMs);
      this.#waiters.add(done);
    });
  }

  #refusal(code: string, byMs: number): SeqdError {
    let words = WORDS[code]!.replace("#", String(byMs));
    const why = this.#error;
    if (why && ["no-lease", "window-ended"].includes(code)) {
      if (isForGood(why) || why.code === "workers-exhausted") return why;
      words += `: ${why.message}`;
    }
    return new SeqdError(code, words, null, !["closed", "layout-exhausted"].includes(code));
  }

  async #keep(): Promise<void> {
    const pace = new Pace();
    while (!this.#isStopped) {
      let waitMs: number;
      try {
        await this.#attempt();
        this.#error = null;
        waitMs = pace.afterSuccess(this.#renewAfterMs);
      } catch (failed) {
        this.#error = asError(failed);
        waitMs = pace.after(this.#error);
      }
      this.#lastAttempt = performance.now();
      for (const waiter of [...this.#waiters]) waiter();
      await this.#rest(waitMs, this.#error !== null);
    }
  }

  /** Reads the clock until the next attempt is due. A call that finds the window ended makes it due
   * a second after the last one, unless that failed. */
  async #rest(waitMs: number, failed: boolean): Promise<void> {
    const began = performance.now();
    this.#isWoken = false;
    while (!this.#isStopped) {
      this.#minter.read(monotonicMs(), this.#wallMs());
      const wait = this.#isWoken && !failed ? Math.min(waitMs, 1000) : waitMs;
      const left = began + wait - performance.now();
      if (left <= 0) return;
      await this.#alarm.wait(Math.min(left, READ_EVERY_MS));
    }
  }

  async #attempt(): Promise<void> {
    if (this.#lease) {
      try {
        return await this.#renew(this.#lease);
      } catch (error) {
        if (!(error instanceof SeqdError) || error.code !== "lease-lost") throw error;
      }
      this.#minter.lost();
      this.#lease = null;
    }
    const lease = await this.#client.call("lease_worker", [], this.#request);
    let layout: Layout;
    try {
      layout = new Layout(lease.layout);
    } catch (error) {
      // Nothing was minted or will be.
      await this.#release(lease, Number(lease.from_tick) - 1);
      throw error;
    }
    this.#renewAfterMs = Math.max(lease.renew_after_ms, LEAST_RENEW_MS);
    this.#lease = lease;
    this.#leases += 1;
    this.#minter.granted(layout, lease.id, Number(lease.from_tick), Number(lease.fence_tick));
  }

  async #renew(lease: Json): Promise<void> {
    const fields = { owner: this.#request.owner, lease: lease.lease };
    const path = [this.#request.layout, lease.id];
    const limit = Math.max(this.#renewAfterMs, 1000) / 1000;
    const renewed = await this.#client.call("renew_worker", path, fields, { limit });
    if (renewed.lease !== lease.lease || renewed.id !== lease.id) {
      throw new SeqdError("bad-answer", "the renewal is for another lease");
    }
    this.#minter.renewed(Number(renewed.fence_tick));
    this.#renewAfterMs = Math.max(renewed.renew_after_ms, LEAST_RENEW_MS);
  }

  async #release(lease: Json, lastTick: number): Promise<void> {
    const fields = { owner: this.#request.owner, lease: lease.lease, last_tick: lastTick };
    await this.#client.call("release_worker", [this.#request.layout, lease.id], fields);
  }

  /** Ends the minting and the task, without a release. */
  stop(): void {
    this.#minter.close();
    this.#isStopped = true;
    this.#alarm.wake();
    for (const waiter of [...this.#waiters]) waiter();
  }

  async close(): Promise<boolean> {
    this.stop();
    const until = performance.now() + this.#patienceMs;
    await within(this.#kept, this.#patienceMs);
    // The task may have taken another lease in the meantime.
    const [lease, lastTick] = [this.#lease, this.#minter.close()];
    this.#lease = null;
    while (lease && lastTick !== null) {
      try {
        await this.#release(lease, lastTick);
        break;
      } catch (failed) {
        this.#error = asError(failed);
        if (this.#error.code === "lease-lost") break;
        if (isForGood(this.#error) || performance.now() + RELEASE_AGAIN_MS > until) return false;
        await sleep(RELEASE_AGAIN_MS);
      }
    }
    return true;
  }
}
