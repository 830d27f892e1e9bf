/**
 * Values of a segment sequence from memory: the next range is fetched before the current one ends.
 *
 * The cluster never grants the values of a range again, so no value is returned twice. Unused
 * values are returned at the end, if no later range was granted to anyone.
 */

import type { Client } from "./client.js";
import { SeqdError } from "./errors.js";
import { asError, isForGood, Pace, sleep, within } from "./time.js";

const MAX_TAKE = 1_000_000;
const RETURN_AGAIN_MS = 300;

interface Range {
  next: bigint;
  step: bigint;
  left: number;
}

export class Ranges {
  readonly #ranges: Range[] = [];
  readonly #pace = new Pace();
  /** The last grant, which returns unused values. */
  #grant: string | null = null;
  /** The grant that the next one extends. */
  #after: string | null = null;
  /** The last granted value, beyond which the next range must be. */
  #last: bigint | null = null;
  #ofGrant = 0;
  #held = 0;
  #error: SeqdError | null = null;
  /** The end of the pause after a permanent refusal. */
  #pausedUntil = -Infinity;
  #isClosed = false;
  #fetching: Promise<void> | null = null;

  constructor(
    readonly client: Client, readonly name: string, readonly size = 10_000, readonly patience = 5,
  ) {
    if (!(size >= 1 && size <= 100_000_000)) {
      throw new RangeError(`the size of a range must be 1 to 100000000, not ${size}`);
    }
    this.#fetch();
  }

  /** The next value, if no wait is needed. */
  tryNext(): bigint | null {
    if (this.#isClosed) return null;
    const range = this.#ranges[0];
    const value = range ? range.next : null;
    if (range) {
      range.next += range.step;
      range.left -= 1;
      this.#held -= 1;
      if (range.left === 0) this.#ranges.shift();
    }
    // The next range is fetched once a tenth of the last one is used.
    if (this.#held < this.size - this.size / 10) this.#fetch();
    return value;
  }

  /** The next value. */
  async next(): Promise<bigint> {
    return this.tryNext() ?? (await this.take(1))[0]!;
  }

  /** `count` values, up to a million, in the direction of the sequence. */
  async take(count: number): Promise<bigint[]> {
    if (!(count >= 1 && count <= MAX_TAKE)) {
      throw new RangeError(`the count must be 1 to ${MAX_TAKE}, not ${count}`);
    }
    const until = performance.now() + this.patience * 1000;
    // Values stay in memory until there are enough, so that a failed call takes none of them.
    while (this.#isClosed || this.#held < count) {
      if (this.#isClosed) throw new SeqdError("closed", "the ranges are closed");
      const now = performance.now();
      if (until <= now || now < this.#pausedUntil) {
        throw this.#error ?? new SeqdError("no-answer", "no range arrived in time", null, true);
      }
      await within(this.#fetch(), until - now);
    }
    return Array.from({ length: count }, () => this.tryNext()!);
  }

  /** Fetches a range, unless that is already on its way, or permanently refused. Ends after the
   * pause of another failure. */
  #fetch(): Promise<void> {
    if (this.#fetching) return this.#fetching;
    if (this.#isClosed || performance.now() < this.#pausedUntil) return Promise.resolve();
    this.#fetching = this.#grantOne().finally(() => (this.#fetching = null));
    return this.#fetching;
  }

  async #grantOne(): Promise<void> {
    try {
      const fields = { size: String(this.size), after: this.#after };
      const grant = await this.client.call("grant_segment", [this.name], fields);
      const [first, last, step] = [grant.first, grant.last, grant.increment].map(BigInt) as
        [bigint, bigint, bigint];
      if (this.#last !== null && (first - this.#last) * step <= 0n) {
        const detail = `the sequence ${this.name} has cycled: ${first} does not follow ${this.#last}`;
        throw new SeqdError("sequence-cycled", detail);
      }
      this.#ranges.push({ next: first, step, left: grant.count });
      this.#grant = this.#after = grant.grant;
      [this.#last, this.#ofGrant] = [last, grant.count];
      this.#held += grant.count;
      this.#error = null;
      this.#pace.afterSuccess(0);
    } catch (failed) {
      const error = asError(failed);
      if (isForGood(error) && error.status && this.#after) {
        // A restored cluster does not accept the grants of its predecessor.
        this.#after = null;
        return;
      }
      this.#error = error;
      const pauseMs = this.#pace.after(error);
      if (isForGood(error)) this.#pausedUntil = performance.now() + pauseMs;
      else await sleep(pauseMs);
    }
  }

  /** Returns unused values to the sequence, and their number. The rest becomes a gap. */
  async close(): Promise<number> {
    if (this.#isClosed) return 0;
    this.#isClosed = true;
    const until = performance.now() + this.patience * 1000;
    await within(this.#fetching, this.patience * 1000);
    let unused = this.#held;
    const ofLast = Math.min(unused, this.#ofGrant);
    this.#ranges.length = 0;
    while (this.#grant && unused) {
      try {
        const path = [this.name, this.#grant];
        return (await this.client.call("return_segment", path, { unused })).returned;
      } catch (failed) {
        this.#error = asError(failed);
        if (isForGood(this.#error)) {
          // The range before may belong to another run, which only the cluster can decide.
          if (unused === ofLast) return 0;
          unused = ofLast;
        } else if (performance.now() + RETURN_AGAIN_MS > until) {
          return 0;
        } else {
          await sleep(RETURN_AGAIN_MS);
        }
      }
    }
    return 0;
  }
}
