/**
 * Decides what may be minted: pure rules on the readings of two clocks, without tasks or requests.
 *
 * Uniqueness depends on the window of the lease alone: every tick is in `[from, fence)`, and each
 * pair of tick and sequence is used once. The rules about the clock keep IDs in the order of time.
 */

import type { Layout } from "./layout.js";

/** The time for which a clock that jumped ahead must be steady. */
const CONFIRM_MS = 5000;

/** `count` IDs of one tick and worker: `first`, then steps of `step`. Or a wait, or a refusal. */
export type Mint =
  | { first: bigint; step: bigint; count: number; worker: number }
  | { waitMs: number }
  | { refused: string; byMs: number };

export type Reading = { clock: "good" } | { waitMs: number } | { refused: string; byMs: number };

const refuse = (refused: string, byMs = 0) => ({ refused, byMs });
const GOOD = { clock: "good" } as const;

export interface Limits {
  maxBackwardWaitMs?: number;
  maxForwardJumpMs?: number;
  onRollback?: "refuse" | "continue";
}

/** Mints the IDs of one lease after the other. */
export class Minter {
  layout: Layout | null = null;
  isClosed = false;
  #backward: number;
  #forward: number;
  #continues: boolean;
  #workerId = 0;
  #from = 0;
  #fence = 0;
  // The next slot: its tick, and its sequence. Only the sequence 0 starts a fresh tick.
  #open = 0;
  #used = 0;
  #last: number | null = null;
  // The readings in the last tick while it is not full, and its first ID.
  #begins = 0;
  #ends = 0;
  #base = 0n;
  // Wall minus monotonic time: of the last trusted reading, and of readings off that line.
  #line: number | null = null;
  #candidate: { line: number; since: number } | null = null;
  /** The start of the last tick that an earlier lease used. */
  #usedUntil = 0;

  constructor(limits: Limits = {}) {
    this.#backward = limits.maxBackwardWaitMs ?? 50;
    this.#forward = limits.maxForwardJumpMs ?? 1000;
    this.#continues = limits.onRollback === "continue";
  }

  granted(layout: Layout, workerId: number, from: number, fence: number): void {
    this.layout = layout;
    [this.#workerId, this.#from, this.#fence] = [workerId, from, fence];
    [this.#open, this.#used, this.#last] = [from, 0, null];
  }

  renewed(fence: number): void {
    this.#fence = Math.max(this.#fence, fence);
  }

  /** The end of the window by the wall clock, if there is a lease. */
  get endsMs(): number | null {
    return this.layout && this.layout.wallAt(this.#fence);
  }

  /** Never mints with this lease again. */
  lost(): void {
    if (this.layout && this.#last !== null) {
      this.#usedUntil = Math.max(this.#usedUntil, this.layout.wallAt(this.#last));
    }
    [this.layout, this.#ends] = [null, 0];
  }

  /** Ends the minting. Returns the tick to release the worker with, if there is a lease. */
  close(): number | null {
    [this.isClosed, this.#ends] = [true, 0];
    if (!this.layout) return null;
    return this.#last ?? this.#from - 1;
  }

  /** A reading of the clocks. */
  read(monotonicMs: number, wallMs: number): Reading {
    if (wallMs < this.#usedUntil) {
      this.#candidate = null;
      const byMs = this.#usedUntil - wallMs;
      if (this.#continues) return GOOD;
      return byMs > this.#backward ? refuse("clock-behind", byMs) : { waitMs: byMs };
    }
    const line = wallMs - monotonicMs;
    const ahead = this.#line === null ? 0 : line - this.#line;
    if (Math.abs(ahead) > this.#forward) {
      const near = this.#candidate && Math.abs(line - this.#candidate.line) <= this.#forward;
      const since = near ? this.#candidate!.since : monotonicMs;
      this.#candidate = { line, since };
      if (monotonicMs - since < CONFIRM_MS) return ahead > 0 ? refuse("clock-jumped", ahead) : GOOD;
    }
    [this.#line, this.#candidate] = [line, null];
    return GOOD;
  }

  /** One ID of the last tick, if the clock is still in it and it is not full. Otherwise `mint`
   * decides. */
  one(wallMs: number): bigint | null {
    if (wallMs < this.#begins || wallMs >= this.#ends) return null;
    const { sequences, sequenceShift } = this.layout!;
    const used = this.#used;
    if (used + 1 === sequences) {
      [this.#open, this.#used, this.#ends] = [this.#open + 1, 0, 0];
    } else {
      this.#used = used + 1;
    }
    return this.#base + (BigInt(used) << sequenceShift);
  }

  /** Up to `count` IDs of one tick, at least one. */
  mint(monotonicMs: number, wallMs: number, count: number): Mint {
    const line = this.#line;
    const isFar = line === null || wallMs - monotonicMs > line + this.#forward;
    if (isFar || wallMs < this.#usedUntil) {
      const reading = this.read(monotonicMs, wallMs);
      if (!("clock" in reading)) return reading;
    }
    const { layout } = this;
    if (this.isClosed) return refuse("closed");
    if (!layout) return refuse("no-lease");
    // The clock is compared with the last tick before anything depends on the new tick.
    let tick = layout.tickAt(wallMs);
    const last = this.#last;
    if (last !== null && tick < last) {
      const byMs = layout.wallAt(last) - wallMs;
      if (!this.#continues) {
        if (byMs > this.#backward) return refuse("clock-behind", byMs);
        return { waitMs: layout.wallAt(this.#open) - wallMs };
      }
      if (this.#open > layout.maxTick) return refuse("layout-exhausted");
      tick = this.#open;
    } else if (tick < 0) {
      return refuse("clock-behind", layout.epochMs - wallMs);
    } else if (tick > layout.maxTick) {
      return refuse("layout-exhausted");
    } else if (tick < this.#open) {
      // The last tick is full, or the window begins later.
      if (this.#open > layout.maxTick) return refuse("layout-exhausted");
      const waitMs = layout.wallAt(this.#open) - wallMs;
      if (last === null && waitMs > this.#backward) return refuse("clock-behind", waitMs);
      return { waitMs };
    }
    if (tick >= this.#fence) return refuse("window-ended");
    return this.#take(layout, tick, count);
  }

  #take(layout: Layout, tick: number, count: number): Mint {
    const isOpen = tick === this.#open;
    const first =
      isOpen && this.#used ? this.#used : layout.firstOf(count, isOpen && this.#last !== null);
    const taken = Math.min(count, layout.sequences - first);
    const end = first + taken;
    this.#last = tick;
    this.#base = layout.pack(tick, this.#workerId, 0);
    this.#begins = layout.wallAt(tick);
    const isFull = end === layout.sequences;
    [this.#open, this.#used] = isFull ? [tick + 1, 0] : [tick, end];
    this.#ends = isFull ? 0 : this.#begins + layout.tickMs;
    const step = 1n << layout.sequenceShift;
    return { first: this.#base + BigInt(first) * step, step, count: taken, worker: this.#workerId };
  }
}
