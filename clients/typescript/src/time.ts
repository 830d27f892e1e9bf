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

/** Waits for work to end, for a limited time. Returns whether it ended. The timer does not outlast
 * the work. */
export async function within(work: Promise<unknown> | null, ms: number): Promise<boolean> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<boolean>((resolve) => (timer = setTimeout(resolve, ms, false)));
  try {
    return await Promise.race([Promise.resolve(work).then(() => true), late]);
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

/** A larger lead of the wall clock counts as a suspension. It is more than the clock's resolution,
 * whose ticks must not count. */
const SUSPENDED_MS = 20;
let suspendedMs = 0;
/** The least difference of the wall and the monotonic clock since the last suspension. */
let offsetMs = Date.now() - performance.now();
/**
 * A clock that includes suspensions of the machine: the monotonic clock, plus the leads of the
 * wall clock. A wall clock that is set ahead makes it early, never late.
 */
export function bootMs(): number {
  const monotonic = performance.now();
  const offset = Date.now() - monotonic;
  const ahead = offset - offsetMs;
  if (ahead > SUSPENDED_MS) suspendedMs += ahead;
  if (ahead > SUSPENDED_MS || ahead < 0) offsetMs = offset;
  return monotonic + suspendedMs;
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
  if (error.code === "unknown-layout" || error.code === "sequence-cycled") return true;
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
