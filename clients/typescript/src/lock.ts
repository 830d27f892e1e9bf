/**
 * A lock that this process holds: acquired, renewed in the background, and released.
 *
 * The holder computes the earliest end of a hold, counted from before the answered request was
 * sent, by a clock that includes suspended time. From then on the lock is lost, whether or not the
 * cluster can be reached. The protected resource should check the token nevertheless: a process can
 * be suspended between the check and the action.
 */

import type { Client } from "./client.js";
import { LockLost, SeqdError, type Json, type Reason } from "./errors.js";
import { Alarm, asError, bootMs, mayPass, sleep, within } from "./time.js";

/** The longest wait of one request that the cluster accepts. */
const ROUND_MS = 600_000;
const AGAIN_MS = 300;
/** A request that has waited for `afterMs` is sent again, and ends `overlapMs` later, when the node
 * has received the second one. Node's `fetch` ends a request without a response after 300 s. */
export const REPEAT = { afterMs: 240_000, overlapMs: 30_000 };
/** Timers stand still while the machine is suspended, so the clock is read this often. */
const LOOK_EVERY_MS = 100;
/** Requests of one acquisition whose responses are lost: one per node of a cluster. */
const MOST_REQUESTS = 5;
/** This clock may be slower than the leader's by one part in a thousand, ten times the usual. */
const DRIFT = 1000;
/** The shortest timeout of a renewal, and that of the release of a lost lock. */
const LEAST_LIMIT_MS = 1000;

const WORDS: Record<Reason, string> = {
  "ran-out": "the lock expired because it was not renewed in time",
  "taken-away": "the cluster reports that the lock is no longer held",
  released: "the lock is not held: it was released or never acquired",
};

/** How long a hold certainly lasts: pure rules, in milliseconds of one clock. */
export class Hold {
  untilMs = 0;
  lost: Reason | null = null;

  constructor(readonly ttlMs: number) {}

  /** A response to a request that was sent at `sentMs`. */
  granted(sentMs: number, expiresInMs: number): void {
    const left = Math.min(expiresInMs, this.ttlMs);
    this.untilMs = sentMs + left - Math.ceil(left / DRIFT);
  }

  refused(code: string): void {
    if (["lease-lost", "lock-held"].includes(code)) this.lost ??= "taken-away";
  }

  /** The time left, or 0 if the lock is lost. It stays lost then. */
  leftMs(nowMs: number): number {
    if (this.untilMs <= nowMs) this.lost ??= "ran-out";
    return this.lost ? 0 : this.untilMs - nowMs;
  }
}

export interface LockOptions {
  /** The duration of the hold without a renewal, 0.1 to 86400 seconds; 30 by default. */
  ttl?: number;
  /** How long to wait for the lock, in seconds: without a limit by default, 0 for at once. */
  wait?: number;
  /** The owner, for display. */
  owner?: string;
  permits?: number;
  shared?: boolean;
  /** Seconds after the hold expires during which the lock is granted to nobody. */
  lockDelay?: number;
  /** Ends a wait for the lock, which then throws the reason of the signal. */
  signal?: AbortSignal | undefined;
}

export class Lock {
  readonly #client: Client;
  readonly #options: LockOptions;
  readonly #ttlMs: number;
  #hold: Hold;
  #lost = new AbortController();
  #token: bigint | null = null;
  #lease = "";
  /** From the beginning of `acquire` to the end of `release`. */
  #isBusy = false;
  #isHeld = false;
  #alarm = new Alarm();
  #kept: Promise<void> = Promise.resolve();

  constructor(client: Client, readonly name: string, options: LockOptions = {}) {
    const ttl = options.ttl ?? 30;
    if (!(ttl >= 0.1 && ttl <= 86400)) {
      throw new RangeError(`the ttl must be 0.1 to 86400 seconds, not ${ttl}`);
    }
    this.#client = client;
    this.#options = options;
    this.#ttlMs = Math.floor(ttl * 1000);
    this.#hold = new Hold(this.#ttlMs);
  }

  /** The fencing token, greater than that of every earlier grant of any lock. */
  get token(): bigint {
    if (this.#token === null) throw new LockLost("released", WORDS.released);
    return this.#token;
  }

  /** Is aborted when the lock is lost. Work that depends on the lock must then stop: pass it to
   * `fetch`, for example. */
  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  /** The seconds for which the lock is certainly held. Throws LockLost if it is not. */
  check(): number {
    const left = this.#isHeld ? this.#hold.leftMs(bootMs()) : 0;
    if (left > 0) return left / 1000;
    const reason = (this.#isHeld && this.#hold.lost) || "released";
    const lost = new LockLost(reason, WORDS[reason]);
    this.#lost.abort(lost);
    throw lost;
  }

  /** Waits for the lock, as long as `wait` permits. Throws `lock-held` if another holds it, or if
   * this object is in use: it has one holder at a time. */
  async acquire(): Promise<this> {
    if (this.#isBusy) {
      const detail = `this object already holds the lock ${this.name}, or waits for it`;
      throw new SeqdError("lock-held", detail, "create another lock object");
    }
    this.#isBusy = true;
    try {
      await this.#waitForGrant();
    } catch (error) {
      this.#isBusy = false;
      throw error;
    }
    this.#isHeld = true;
    // Of its own, because a check before the grant has aborted the former signal.
    this.#lost = new AbortController();
    this.#kept = this.#keep(this.#hold, this.#lease, this.#lost);
    return this;
  }

  async #waitForGrant(): Promise<void> {
    const { wait, signal } = this.#options;
    signal?.throwIfAborted();
    const until = wait === undefined ? Infinity : performance.now() + wait * 1000;
    this.#hold = new Hold(this.#ttlMs);
    let nonce = crypto.randomUUID();
    for (;;) {
      const left = Math.min(Math.max(until - performance.now(), 0), ROUND_MS);
      try {
        const [held, sentMs] = await this.#request(nonce, left);
        if (await this.#confirm(held, sentMs)) return;
        nonce = crypto.randomUUID();
      } catch (failed) {
        if (signal?.aborted) {
          void this.#withdraw(nonce);
          throw signal.reason;
        }
        const error = asError(failed);
        // The wait of one request has ended, and with it the place in the queue.
        if (error.code === "lock-held") nonce = crypto.randomUUID();
        if (!mayPass(error) || performance.now() >= until) throw error;
        if (error.code !== "lock-held") await sleep(AGAIN_MS);
      }
    }
  }

  /** Releases a grant whose response a cancelled wait has cut off: the same nonce finds it. */
  async #withdraw(nonce: string): Promise<void> {
    try {
      const [held] = await this.#send(nonce, performance.now());
      await this.#giveBack(held.lease);
    } catch {
      // It was not granted, or the hold expires.
    }
  }

  async #request(nonce: string, waitMs: number): Promise<[Json, number]> {
    const until = performance.now() + waitMs;
    const { signal } = this.#options;
    for (let request = 1; ; request++) {
      try {
        return await this.#wait(nonce, until, signal ? [signal] : []);
      } catch (failed) {
        // The same nonce finds its place in the queue, or its hold.
        const error = asError(failed);
        const isLost = error.code === "outcome-unknown" && error.status === null;
        if (!isLost || signal?.aborted || request === MOST_REQUESTS) throw error;
      }
    }
  }

  /** One request. A long one is repeated with the same nonce before it ends, so that it keeps its
   * place in the queue. */
  async #wait(nonce: string, until: number, signals: AbortSignal[]): Promise<[Json, number]> {
    const [own, next] = [new AbortController(), new AbortController()];
    const answer = this.#send(nonce, until, AbortSignal.any([own.signal, ...signals]));
    if (await within(answer, REPEAT.afterMs)) return answer;
    const repeated = this.#wait(nonce, until, [next.signal, ...signals]);
    const timer = setTimeout(() => own.abort(), REPEAT.overlapMs);
    // The first request still has its place if the other one fails.
    repeated.catch(() => clearTimeout(timer));
    try {
      return await Promise.any([answer, repeated]);
    } catch (failed) {
      throw (failed as AggregateError).errors[1];
    } finally {
      clearTimeout(timer);
      own.abort();
      next.abort();
    }
  }

  async #send(nonce: string, until: number, signal?: AbortSignal): Promise<[Json, number]> {
    const left = Math.max(until - performance.now(), 0);
    const { owner, permits, shared, lockDelay } = this.#options;
    const fields = {
      owner: owner ?? this.#client.owner,
      ttl_ms: this.#ttlMs,
      wait_ms: Math.floor(left),
      nonce,
      permits,
      shared,
      lock_delay_ms: lockDelay === undefined ? undefined : Math.floor(lockDelay * 1000),
    };
    const sentMs = bootMs();
    const options = { wait: left / 1000, signal };
    return [await this.#client.call("acquire_lock", [this.name], fields, options), sentMs];
  }

  /** Takes the grant. After a wait it is renewed first, because the known time is counted from
   * before the wait. */
  async #confirm(held: Json, sentMs: number): Promise<boolean> {
    [this.#lease, this.#token] = [held.lease, BigInt(held.token)];
    this.#hold.granted(sentMs, held.expires_in_ms);
    const over = bootMs() + this.#ttlMs;
    while (this.#hold.untilMs - bootMs() <= this.#ttlMs / 2) {
      try {
        const sent = bootMs();
        const renewed = await this.#renew(this.#lease, Math.max(this.#ttlMs / 3, LEAST_LIMIT_MS));
        this.#hold.granted(sent, renewed.expires_in_ms);
        break;
      } catch (failed) {
        const error = asError(failed);
        if (mayPass(error) && error.code !== "lock-held" && bootMs() < over) {
          await sleep(Math.min(AGAIN_MS, this.#ttlMs / 10));
          continue;
        }
        await this.#giveBack(this.#lease);
        this.#token = null;
        if (mayPass(error) || ["lease-lost", "lock-held"].includes(error.code)) return false;
        throw error;
      }
    }
    return true;
  }

  #renew(lease: string, limitMs: number): Promise<Json> {
    const fields = { lease, ttl_ms: this.#ttlMs };
    return this.#client.call("renew_lock", [this.name], fields, { limit: limitMs / 1000 });
  }

  /** Renews the hold when two thirds of its time remain, until it is lost or released. */
  async #keep(hold: Hold, lease: string, lost: AbortController): Promise<void> {
    const lose = (): void => lost.abort(new LockLost(hold.lost!, WORDS[hold.lost!]));
    // Timers are late after a suspension, never early, and `check` reads the clock itself.
    while (this.#isHeld) {
      const now = bootMs();
      const left = hold.leftMs(now);
      if (!left) return lose();
      const due = hold.untilMs - Math.floor(this.#ttlMs / 3) * 2;
      if (now < due) {
        await this.#alarm.wait(Math.min(LOOK_EVERY_MS, Math.ceil(due - now)));
        continue;
      }
      // A request may outlast the hold, which ends then without its response.
      const ended = setTimeout(() => hold.leftMs(bootMs()) || lose(), Math.ceil(left) + 1);
      try {
        const renewed = await this.#renew(lease, Math.min(Math.max(this.#ttlMs / 3, LEAST_LIMIT_MS), left));
        if (hold.leftMs(bootMs())) hold.granted(now, renewed.expires_in_ms);
      } catch (failed) {
        hold.refused(asError(failed).code);
        await this.#alarm.wait(Math.min(this.#ttlMs / 20, 1000, hold.leftMs(bootMs())));
      } finally {
        clearTimeout(ended);
      }
    }
  }

  /** Releases the lock. One that is lost is no error: it is released by one short attempt, in case
   * the cluster still has it. */
  async release(): Promise<void> {
    if (!this.#isHeld) return;
    const isLost = !this.#hold.leftMs(bootMs());
    this.#isHeld = false;
    this.#lost.abort(new LockLost("released", WORDS.released));
    this.#alarm.wake();
    try {
      // A renewal on its way ends before the release.
      await this.#kept;
      const error = await this.#giveBack(this.#lease, isLost);
      if (error && !isLost) throw error;
    } finally {
      this.#isBusy = false;
    }
  }

  async #giveBack(lease: string, isLost = false): Promise<SeqdError | null> {
    const options = isLost ? { limit: LEAST_LIMIT_MS / 1000 } : {};
    for (let attempt = 1; ; attempt++) {
      try {
        await this.#client.call("release_lock", [this.name], { lease }, options);
        return null;
      } catch (failed) {
        const error = asError(failed);
        if (["lease-lost", "lock-held"].includes(error.code)) return null;
        if (isLost || !mayPass(error) || attempt === 5) return error;
      }
      await sleep(LOOK_EVERY_MS * attempt);
    }
  }

  /** Acquires the lock, runs the work, and releases the lock, whatever the work does. */
  async run<T>(work: (lock: this) => Promise<T> | T): Promise<T> {
    await this.acquire();
    let value: T;
    try {
      value = await work(this);
    } catch (error) {
      // The hold expires if this fails. The error of the work says more.
      await this.release().catch(() => {});
      throw error;
    }
    await this.release();
    return value;
  }
}
