/** The errors of this library. Each has a stable code, such as `no-quorum`. */

export type Json = Record<string, any>;

/**
 * The reason why a call has no result. `code` is a code of the cluster (`/problems/CODE`), or one of
 * this library: `unreachable`, `no-answer`, `bad-answer`, `unknown-layout`, `window-ended`,
 * `no-lease`, `clock-jumped`, `clock-ahead`, `busy`, `sequence-cycled`, `closed`, `lock-lost`,
 * `took-too-long` and `not-kept` (docs/clients/COMMON.md). `retryable` means that the call certainly
 * had no effect and may be made again. After `outcome-unknown` the request may have taken effect.
 */
export class SeqdError extends Error {
  override readonly name: string = "SeqdError";

  constructor(
    readonly code: string,
    readonly detail = "",
    readonly hint: string | null = null,
    readonly retryable = false,
    readonly status: number | null = null,
    readonly retryAfterMs: number | null = null,
    /** All fields of the response, such as the holder of a held lock. */
    readonly problem: Json = {},
  ) {
    super((detail ? `${detail} (${code})` : code) + (hint ? `; hint: ${hint}` : ""));
  }
}

/** Why a lock is no longer held. */
export type Reason = "ran-out" | "taken-away" | "released";

/** A lock is no longer held. */
export class LockLost extends SeqdError {
  override readonly name = "LockLost";

  constructor(readonly reason: Reason, detail: string) {
    super("lock-lost", detail);
  }
}

/** The error of a response in problem+json. */
export function ofProblem(status: number, problem: Json): SeqdError {
  if (typeof problem?.code !== "string") throw new TypeError("not a problem");
  return new SeqdError(
    problem.code,
    problem.detail || problem.title || "",
    problem.hint ?? null,
    problem.retryable === true,
    status,
    problem.retry_after_ms ?? null,
    problem,
  );
}
