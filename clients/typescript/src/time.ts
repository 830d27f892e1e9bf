/** Clocks, waits, and the intervals between the requests of a background task. */

import { SeqdError } from "./errors.js";

export const wallMs = (): number => Date.now();
export const monotonicMs = (): number => Math.floor(performance.now());

/** Timers that do not keep a process alive, if the platform has processes. */
function unref(timer: unknown): void {
  (timer as { unref?: () => void }).unref?.();
}

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Waits for work to end, for a limited time. Its timer does not outlast the work. */
export async function within(work: Promise<unknown> | null, ms: number): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<void>((resolve) => (timer = setTimeout(resolve, ms)));
  try {
    await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** A wait that `wake` ends early. */
export class Alarm {
  #wake: (() => void) | null = null;

  async wait(ms: number): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
      unref(setTimeout(resolve, ms));
    });
    this.#wake = null;
  }

  wake(): void {
    this.#wake?.();
  }
}

/**
 * A clock that includes suspensions of the machine: it advances by the larger difference of the
 * monotonic and the wall clock. A wall clock that is set ahead makes it early, never late.
 */
let boot = 0;
let lastMonotonic = performance.now();
let lastWall = Date.now();
export function bootMs(): number {
  const [monotonic, wall] = [performance.now(), Date.now()];
  boot += Math.max(monotonic - lastMonotonic, wall - lastWall, 0);
  [lastMonotonic, lastWall] = [monotonic, wall];
  return boot;
}

const FIRST_MS = 300;
/** The longest wait after a failure, unless the response requests a longer one. */
const MOST_MS = 2000;
const LONGEST_ASKED_MS = 5000;
/** The wait after a permanent refusal. */
const FOR_GOOD_MS = 10_000;
const spread = (ms: number, least: number, most: number): number =>
  ms * (least + Math.random() * (most - least));

/** Whether another attempt would most likely fail in the same way. */
export function isForGood(error: SeqdError): boolean {
  if (error.code === "bad-layout" || error.code === "sequence-cycled") return true;
  const passing = error.retryable || ["outcome-unknown", "bad-answer"].includes(error.code);
  return !passing && (error.status ?? 0) < 500;
}

/** Whether the same request may succeed later and is safe to send again. */
export function mayPass(error: SeqdError): boolean {
  if (error.retryable || error.code === "outcome-unknown") return true;
  return error.code === "bad-answer" && (error.status ?? 0) >= 500;
}

export class Pace {
  #failures = 0;

  /** Slightly before it is due, so that programs that started together drift apart. */
  afterSuccess(dueMs: number): number {
    this.#failures = 0;
    return spread(dueMs, 0.85, 1);
  }

  after(error: SeqdError): number {
    if (isForGood(error)) return spread(FOR_GOOD_MS, 1, 1.25);
    const doubled = Math.min(FIRST_MS * 2 ** Math.min(this.#failures, 4), MOST_MS);
    this.#failures += 1;
    const ofOneNode = ["clock-behind", "clock-skewed"].includes(error.code);
    const asked = ofOneNode ? 0 : Math.min(error.retryAfterMs ?? 0, LONGEST_ASKED_MS);
    return spread(Math.max(doubled, asked), 1, 1.25);
  }
}

/** Any failure as an error of this library, so that no background task ends. */
export function asError(failed: unknown): SeqdError {
  if (failed instanceof SeqdError) return failed;
  return new SeqdError("bad-answer", `the cluster's response cannot be used: ${failed}`);
}
