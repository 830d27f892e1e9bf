/**
 * Sends requests: the endpoints in turn, deadlines, and what is known if no response arrives.
 *
 * The endpoint of the last good response is tried first. A request that must not be repeated is
 * sent only to a node that has responded lately, at least to `/livez`, and to no other node after.
 */

import { ofProblem, SeqdError, type Json } from "./errors.js";

/** The part of the global `fetch` that this library uses. With `secure`, endpoints without a scheme
 * use `https`. */
export interface Fetch {
  (url: string, init: RequestInit): Promise<Response>;
  secure?: boolean;
}

/** The time beyond the node's deadline, so that its response about a missed deadline arrives. */
const GRACE_MS = 500;
const MAX_SERVER_TIMEOUT_MS = 30_000;
/** The time for which a response counts as a sign of life. */
const LATELY_MS = 10_000;
/** More than a million values, which is more than any node returns at once. */
const MAX_ANSWER_BYTES = 64 * 1024 * 1024;
const PORT = 7400;
/** Errors of Node before any part of the request was sent. A browser does not tell. */
const NOT_SENT = /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|UND_ERR_CONNECT_TIMEOUT|ERR_TLS_|CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO|ERR_SSL_.*CERT)/;

const TLS_FAILED = /\((\/livez )?(ERR_TLS_|ERR_SSL_|CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO)/;

class NotSent extends Error {}
class Silent extends Error {}

class Endpoint {
  readonly url: string;
  readonly name: string;
  readonly isTls: boolean;
  answered = -Infinity;

  constructor(text: string, secure: boolean) {
    const full = text.includes("://") ? text : `${secure ? "https" : "http"}://${text}`;
    let url: URL;
    try {
      url = new URL(full);
    } catch {
      throw new RangeError(`${text} is not an endpoint: use HOST, HOST:PORT or a URL`);
    }
    const isBare = url.pathname === "/" && !url.search && !url.hash && !url.username;
    if (!["http:", "https:"].includes(url.protocol) || !isBare) {
      throw new RangeError(`${text} is not an endpoint: use HOST, HOST:PORT or a URL without a path`);
    }
    // A URL omits port 80 of http and 443 of https.
    const given = /:(\d+)\/?$/.exec(full)?.[1] ?? String(PORT);
    this.name = `${url.hostname}:${given}`;
    this.url = `${url.protocol}//${this.name}`;
    this.isTls = url.protocol === "https:";
  }
}

export interface Sent {
  method: string;
  path: string;
  query?: Json;
  body?: Json | undefined;
  repeatable: boolean;
  /** How long the node may wait before it responds, in milliseconds. */
  waitMs?: number;
  /** The longest time of all attempts, in milliseconds. */
  limitMs?: number;
  headers?: Record<string, string>;
  signal?: AbortSignal | undefined;
}

/** The endpoints of one cluster. */
export class Transport {
  readonly wholeMs: number;
  readonly #endpoints: Endpoint[];
  readonly #token: string | undefined;
  readonly #fetch: Fetch;
  #good: Endpoint | null = null;

  constructor(list: string[], token: string | undefined, timeoutMs: number, secure: boolean, fetch: Fetch) {
    if (list.length === 0) throw new RangeError("no endpoints are given");
    if (!(timeoutMs > 0)) throw new RangeError(`the timeout must be above 0, not ${timeoutMs}`);
    if (token !== undefined && !/^[!-~]+$/.test(token)) {
      const cause = "a token has printable ASCII characters only, and this one has others";
      throw new RangeError(`${cause}: remove the line break of a file with trim()`);
    }
    this.#endpoints = list.map((text) => new Endpoint(text, secure));
    this.#token = token;
    this.#fetch = fetch;
    this.wholeMs = timeoutMs + GRACE_MS;
  }

  /** The JSON of the response. */
  async send(sent: Sent): Promise<any> {
    const whole = Math.min(this.wholeMs, sent.limitMs ?? Infinity);
    const waitMs = sent.waitMs ?? 0;
    const until = performance.now() + whole + waitMs;
    const good = this.#good;
    const order = [...(good ? [good] : []), ...this.#endpoints.filter((one) => one !== good)];
    let problem: SeqdError | null = null;
    let wasSent = false;
    const attempts: string[] = [];
    for (const [tried, endpoint] of order.entries()) {
      const left = order.length - tried;
      let rest = until - performance.now();
      if (rest <= 0 || (tried && sent.signal?.aborted)) break;
      try {
        if (!sent.repeatable || (waitMs && left > 1)) {
          await this.#signOfLife(endpoint, spareOf(rest, waitMs) / (left + 1));
          rest = until - performance.now();
        }
        const spare = spareOf(rest, waitMs);
        const share = sent.repeatable ? rest - spare + spare / left : rest;
        return await this.#one(endpoint, sent, share, Math.min(share - waitMs, whole));
      } catch (error) {
        if (error instanceof SeqdError) {
          if (isNotProcessed(endpoint, error)) {
            this.#wasSilent(endpoint);
            problem ??= error;
            continue;
          }
          // The holder of a lock is the same on all nodes.
          if (!error.retryable || error.code === "lock-held") throw error;
          problem = error;
          continue;
        }
        if (!(error instanceof NotSent || error instanceof Silent)) throw error;
        this.#wasSilent(endpoint);
        if (error instanceof Silent && !sent.repeatable) throw unknown(endpoint, error.message);
        wasSent ||= error instanceof Silent;
        attempts.push(`${endpoint.name} (${error.message})`);
      }
    }
    if (problem) throw problem;
    const all = attempts.join(", ");
    if (wasSent) throw new SeqdError("no-answer", `no response: ${all}`, null, true);
    const hint = TLS_FAILED.test(all)
      ? "a node was reached, but TLS failed: give nodeFetch() the CA (SEQD_CACERT), or use http://"
      : "is a node running there? set the endpoints, or SEQD_ENDPOINTS";
    throw new SeqdError("unreachable", `no node could be reached: ${all}`, hint, true);
  }

  async #one(endpoint: Endpoint, sent: Sent, limitMs: number, toldMs: number): Promise<any> {
    const headers: Record<string, string> = {
      accept: "application/json, application/problem+json",
      ...sent.headers,
    };
    if (this.#token) headers.authorization = `Bearer ${this.#token}`;
    if (sent.body) headers["content-type"] = "application/json";
    const query = new URLSearchParams();
    for (const [key, value] of Object.entries(sent.query ?? {})) {
      if (value !== undefined && value !== null) query.set(key, String(value));
    }
    if (sent.path.startsWith("/v1/")) {
      const told = Math.max(toldMs, 0);
      const deadline = Math.min(Math.max(told - GRACE_MS, told / 2), MAX_SERVER_TIMEOUT_MS);
      query.set("timeout_ms", String(Math.max(Math.floor(deadline), 1)));
    }
    const target = query.size ? `${sent.path}?${query}` : sent.path;
    const body = sent.body ? JSON.stringify(sent.body) : undefined;
    const init: RequestInit = { method: sent.method, headers, ...(body ? { body } : {}) };
    const [status, text] = await this.#exchange(endpoint, target, init, limitMs, sent.signal);
    endpoint.answered = performance.now();
    if (status < 500) this.#good = endpoint;
    else if (this.#good === endpoint) this.#good = null;
    let error: SeqdError;
    try {
      const answer = JSON.parse(text);
      if (status >= 200 && status < 300) return answer;
      error = ofProblem(status, answer);
    } catch {
      // An intermediary may have forwarded the request before it failed.
      if (status >= 500 && !sent.repeatable) throw unknown(endpoint, `status ${status}`);
      const start = JSON.stringify(text.slice(0, 120));
      const detail = `${endpoint.name} returned status ${status}, and the response is not from seqd`;
      throw new SeqdError("bad-answer", `${detail}: it begins with ${start}`, null, false, status);
    }
    throw error;
  }

  async #exchange(
    endpoint: Endpoint, target: string, init: RequestInit, limitMs: number, signal?: AbortSignal,
  ): Promise<[number, string]> {
    const limit = AbortSignal.timeout(Math.max(Math.ceil(limitMs), 1));
    const both = signal ? AbortSignal.any([limit, signal]) : limit;
    try {
      const options: RequestInit = { ...init, signal: both, redirect: "manual", cache: "no-store" };
      const response = await this.#fetch(endpoint.url + target, options);
      return [response.status, await textOf(response)];
    } catch (error) {
      if (error instanceof SeqdError) throw error;
      if (signal?.aborted) throw new Silent("aborted by the caller");
      if (limit.aborted) throw new Silent("timed out");
      const { code, message } = causeOf(error);
      throw new (NOT_SENT.test(code) ? NotSent : Silent)(code || message);
    }
  }

  #wasSilent(endpoint: Endpoint): void {
    endpoint.answered = -Infinity;
    if (this.#good === endpoint) this.#good = null;
  }

  async #signOfLife(endpoint: Endpoint, limitMs: number): Promise<void> {
    if (performance.now() - endpoint.answered < LATELY_MS) return;
    let status: number;
    try {
      [status] = await this.#exchange(endpoint, "/livez", { method: "GET" }, limitMs);
    } catch (error) {
      throw new NotSent(`/livez ${(error as Error).message}`);
    }
    // A proxy returns such a status if it cannot reach the node.
    if (status >= 500) throw new NotSent(`status ${status} for /livez`);
    endpoint.answered = performance.now();
  }
}

/** Returns whether a port with TLS rejected a request without TLS, before it was read. */
function isNotProcessed(endpoint: Endpoint, error: SeqdError): boolean {
  return !endpoint.isTls && error.status === 400 && error.problem.tls_required === true;
}

/** The time that is divided by the endpoints: without the wait, if that can still be served. */
function spareOf(restMs: number, waitMs: number): number {
  return restMs > waitMs ? restMs - waitMs : restMs;
}

async function textOf(response: Response): Promise<string> {
  const decoder = new TextDecoder();
  const reader = response.body?.getReader();
  let [text, size] = ["", 0];
  while (reader) {
    const { done, value } = await reader.read();
    if (done) break;
    size += value.length;
    if (size > MAX_ANSWER_BYTES) {
      await reader.cancel();
      const detail = `the response is longer than ${MAX_ANSWER_BYTES} bytes`;
      throw new SeqdError("bad-answer", detail, null, false, response.status);
    }
    text += decoder.decode(value, { stream: true });
  }
  return text;
}

/** The innermost cause with a code: `ECONNREFUSED`, not `fetch failed`. */
function causeOf(error: unknown): { code: string; message: string } {
  let found = { code: "", message: String(error) };
  for (let one = error as any; one instanceof Error; one = one.cause ?? (one as any).errors?.[0]) {
    found = { code: String((one as any).code ?? found.code), message: one.message };
  }
  return found;
}

function unknown(endpoint: Endpoint, reason: string): SeqdError {
  const detail = `the request was sent to ${endpoint.name} and got no response (${reason})`;
  return new SeqdError("outcome-unknown", `${detail}; it may have taken effect`);
}
