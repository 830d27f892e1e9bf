// Requests to the node that serves the page. The access token stays in this module, in memory only.

let token = "";

export function setToken(text) {
  token = text.trim();
}

/** A difference below this is that of the header's whole seconds, and of the way. */
const DIFFERENCE_MS = 2000;

/** The time by which the node's clock is ahead of the browser's. */
let aheadMs = 0;

/** The time by the node's clock, which the times in its answers are of. */
export function nodeNow() {
  return Date.now() + aheadMs;
}

function compareClocks(date) {
  const difference = Date.parse(date) + 500 - Date.now();
  aheadMs = Math.abs(difference) > DIFFERENCE_MS ? difference : 0;
}

/** The node refused the request with a problem. */
export class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail || problem.title || `status ${status}`);
    Object.assign(this, { status, problem, code: problem.code || `status-${status}`, hint: problem.hint });
  }
}

/** The node sent no response. */
export class Unanswered extends Error {}

/** Fills the parameters of a path such as `/v1/ids/{id}`. */
export function fill(path, parameters = {}) {
  return path.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(parameters[name]));
}

/**
 * Sends one request. It is never repeated: a caller decides whether a repetition is safe.
 * Returns JSON, or text for another content type.
 */
export async function send(method, path, { query = {}, body, waitMs = 2000 } = {}) {
  const search = new URLSearchParams(query).toString();
  const headers = { accept: "application/json, text/plain;q=0.5" };
  if (token) headers.authorization = `Bearer ${token}`;
  if (body !== undefined) headers["content-type"] = "application/json";
  let response, text;
  try {
    response = await fetch(search ? `${path}?${search}` : path, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      cache: "no-store",
      credentials: "omit",
      redirect: "error",
      signal: AbortSignal.timeout(waitMs),
    });
    text = await response.text();
  } catch (error) {
    const late = error.name === "TimeoutError";
    throw new Unanswered(late ? `no response within ${waitMs / 1000} s` : "the connection failed");
  }
  compareClocks(response.headers.get("date"));
  const isJson = /json/.test(response.headers.get("content-type") || "");
  const read = isJson ? parsed(text) : text;
  if (!response.ok) throw new Refused(response.status, isJson ? read : {});
  return read;
}

/** JSON, with an empty object for a text that is cut off. */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
}
