/** Layouts: how tick, worker and sequence share the bits of an ID, and the texts of IDs. */

import { SeqdError, type Json } from "./errors.js";

const BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const FORMS = {
  dec: ["0123456789", 1],
  hex: ["0123456789abcdef", 1],
  b62: [BASE62, 11],
  crockford: [CROCKFORD, 13],
} as const;

export type Format = keyof typeof FORMS;

/** The text of an ID. */
export function encode(id: bigint, format: Format = "b62"): string {
  const [digits, width] = FORMS[format];
  const base = BigInt(digits.length);
  let text = "";
  for (let rest = id; rest > 0n; rest /= base) text = digits[Number(rest % base)] + text;
  return text.padStart(width, "0");
}

/** The ID of a text. Crockford's I, L and O are read as 1, 1 and 0, in upper or lower case. */
export function decode(text: string, format: Format = "dec"): bigint {
  const [digits] = FORMS[format];
  let read = text;
  if (format === "crockford") read = text.toUpperCase().replace(/[IL]/g, "1").replace(/O/g, "0");
  if (format === "hex") read = text.toLowerCase();
  let id = 0n;
  for (const one of read) {
    const digit = digits.indexOf(one);
    if (digit < 0) throw new RangeError(`${text} is not an ID in ${format}: it has ${one}`);
    id = id * BigInt(digits.length) + BigInt(digit);
  }
  if (!read || id >> 64n) throw new RangeError(`${text} is not an ID in ${format}: 1 to 64 bits`);
  return id;
}

export interface Parts {
  tick: number;
  /** The whole field, datacenter bits included. */
  workerId: number;
  datacenter: number | null;
  worker: number;
  sequence: number;
  unixMs: number;
}

/** One layout, from its definition in a lease. */
export class Layout {
  readonly name: string;
  readonly epochMs: number;
  readonly tickMs: number;
  readonly sequences: number;
  readonly maxTick: number;
  readonly tickShift: bigint;
  readonly workerShift: bigint;
  readonly sequenceShift: bigint;
  readonly #workerBits: number;
  readonly #datacenterBits: number;
  readonly #first: string;

  constructor(definition: Json) {
    this.name = definition.name;
    this.epochMs = definition.epoch_ms;
    this.tickMs = definition.tick_ms;
    this.#workerBits = definition.worker_bits;
    this.#datacenterBits = definition.datacenter_bits;
    this.#first = definition.first_sequence;
    this.sequences = 2 ** definition.sequence_bits;
    this.maxTick = 2 ** definition.time_bits - 1;
    const { order } = definition;
    const isKnown = /^(zero|spread|random:\d+)$/.test(this.#first);
    if (!isKnown || !["tick-worker-sequence", "tick-sequence-worker"].includes(order)) {
      const detail = `layout ${this.name} has the order ${order} and the first sequence`;
      throw new SeqdError("unknown-layout", `${detail} ${this.#first}, which is not supported`);
    }
    const workerBits = BigInt(this.#workerBits + this.#datacenterBits);
    const sequenceBits = BigInt(definition.sequence_bits);
    const workerFirst = order === "tick-worker-sequence";
    this.tickShift = workerBits + sequenceBits;
    this.workerShift = workerFirst ? sequenceBits : 0n;
    this.sequenceShift = workerFirst ? 0n : workerBits;
  }

  /** The tick of a time; below 0 before the epoch, and above `maxTick` after the end. */
  tickAt(unixMs: number): number {
    return Math.floor((unixMs - this.epochMs) / this.tickMs);
  }

  wallAt(tick: number): number {
    return this.epochMs + tick * this.tickMs;
  }

  pack(tick: number, workerId: number, sequence: number): bigint {
    const worker = BigInt(workerId) << this.workerShift;
    return (BigInt(tick) << this.tickShift) | worker | (BigInt(sequence) << this.sequenceShift);
  }

  unpack(id: bigint): Parts {
    const bits = this.#workerBits + this.#datacenterBits;
    const workerId = Number((id >> this.workerShift) & (2n ** BigInt(bits) - 1n));
    const tick = Number(id >> this.tickShift);
    const low = 2 ** this.#workerBits;
    return {
      tick,
      workerId,
      datacenter: this.#datacenterBits ? Math.floor(workerId / low) : null,
      worker: workerId % low,
      sequence: Number((id >> this.sequenceShift) & BigInt(this.sequences - 1)),
      unixMs: this.wallAt(tick),
    };
  }

  /** The first sequence of a batch in a fresh tick. Any choice is right: random ones spread over
   * shards. */
  firstOf(count: number, afterFull: boolean): number {
    const below = (bound: number): number => Math.floor(Math.random() * bound);
    if (this.#first === "zero" || (this.#first === "spread" && afterFull)) return 0;
    if (this.#first !== "spread") return below(Number(this.#first.slice("random:".length)));
    return below(this.sequences - Math.min(Math.max(count, 1), this.sequences) + 1);
  }
}
