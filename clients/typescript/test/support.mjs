/** What the tests share: the vectors, stub nodes, and the cluster that `clients/run` started. */

import { readFileSync } from "node:fs";
import { createServer as createHttpServer } from "node:http";
import { createServer } from "node:net";

import { Client } from "../dist/index.js";
import { nodeFetch } from "../dist/node.js";

const root = new URL("../../", import.meta.url);
export const VECTORS = JSON.parse(readFileSync(new URL("vectors.json", root), "utf8"));
export const OPENAPI = JSON.parse(
  readFileSync(process.env.OPENAPI ?? new URL("../docs/openapi.json", root), "utf8"),
);
export const SHORT = Boolean(process.env.SHORT);
export const skip = process.env.CONTROL ? false : "needs the cluster of clients/run";

export async function control(path) {
  const answer = await fetch(process.env.CONTROL + path, { method: "POST" });
  if (!answer.ok) throw new Error(await answer.text());
}

const file = skip ? undefined : nodeFetch();
const options = { fetch: file };
export const connectOptions = () => options;
export const client = (more = {}) => new Client(undefined, { ...options, ...more });

let names = 0;
/** A name that no other test uses. */
export const fresh = (kind) => `${kind}-js-${process.pid}-${names++}`;

/** A stub that does what a case of the vectors says. Counts requests other than `/livez`. */
export async function node(does) {
  const stub = { requests: 0, sockets: [] };
  const server = createServer((socket) => {
    stub.sockets.push(socket);
    socket.on("error", () => {});
    socket.once("data", (bytes) => {
      const isLivez = String(bytes).startsWith("GET /livez ");
      if (!isLivez) stub.requests += 1;
      const kind = does.does;
      if (isLivez ? kind === "hang-livez" : ["hang", "hang-livez"].includes(kind)) return;
      if (isLivez) socket.end(http(kind === "fail-livez" ? 503 : 200, {}, "{}"));
      else if (kind === "answer") socket.end(http(does.status, does.headers, does.body));
      else socket.destroy();
    });
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  stub.url = `http://127.0.0.1:${server.address().port}`;
  stub.close = () => {
    server.close();
    for (const socket of stub.sockets) socket.destroy();
  };
  if (does.does === "refuse") await new Promise((resolve) => server.close(resolve));
  return stub;
}

function http(status, headers, body) {
  const all = { "content-length": Buffer.byteLength(body), connection: "close", ...headers };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}`);
  return [`HTTP/1.1 ${status} X`, ...lines, "", body].join("\r\n");
}

/** The URL of a stub whose responses a function computes: a status, and JSON, a text, or null for a
 * response that ends early. `gone` ends when the client disconnects. */
export async function stub(t, answer) {
  const server = createHttpServer(async (request, response) => {
    const { pathname: path, searchParams: query } = new URL(request.url, "http://stub");
    let text = "";
    for await (const chunk of request) text += chunk;
    const gone = new Promise((resolve) => response.once("close", resolve));
    const of = { method: request.method, path, query, body: text && JSON.parse(text), gone };
    const [status, body] = path === "/livez" ? [200, {}] : await answer(of);
    response.statusCode = status;
    if (body === null) {
      response.setHeader("content-length", 100);
      response.write('{"id": "7", ', () => response.destroy());
    } else {
      response.end(typeof body === "string" ? body : JSON.stringify(body));
    }
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  return `http://127.0.0.1:${server.address().port}`;
}
