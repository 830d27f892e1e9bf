/** A `fetch` for Node with certificates, which the built-in one cannot be given. It uses `node:https`
 * and keeps its connections. */

import { readFileSync } from "node:fs";
import { Agent, request } from "node:https";
import { Readable } from "node:stream";

import type { Fetch } from "./transport.js";

/** Idle connections per node: enough for many tasks, few for the node. */
const MAX_IDLE = 16;

export interface Files {
  /** PEM file with the CAs that signed the nodes' certificates; by default those of Node. */
  cacert?: string | undefined;
  /** PEM file with the client's certificate, for nodes that require one. */
  cert?: string | undefined;
  /** PEM file with the private key of `cert`. */
  key?: string | undefined;
}

/** SEQD_CACERT, SEQD_CERT and SEQD_KEY by default. */
export function nodeFetch(files: Files = {}): Fetch {
  const read = (given: string | undefined, name: string): Buffer | undefined => {
    const path = given || process.env[name];
    return path ? readFileSync(path) : undefined;
  };
  const [ca, cert, key] = [
    read(files.cacert, "SEQD_CACERT"), read(files.cert, "SEQD_CERT"), read(files.key, "SEQD_KEY"),
  ];
  const pem = "-----BEGIN CERTIFICATE-----";
  if (ca && !ca.includes(pem)) throw new RangeError(`the CA file has no ${pem}`);
  const agent = new Agent({ keepAlive: true, maxFreeSockets: MAX_IDLE, ca, cert, key });
  const fetch: Fetch = (url, init) =>
    new Promise((resolve, reject) => {
      const headers = init.headers as Record<string, string>;
      const options = { agent, headers, method: init.method ?? "GET", signal: init.signal! };
      const sent = request(url, options, (answer) => {
        const body = Readable.toWeb(answer) as unknown as ReadableStream;
        resolve(new Response(body, { status: answer.statusCode ?? 500 }));
      });
      sent.on("error", reject);
      sent.end(init.body as string | undefined);
    });
  fetch.secure = true;
  return fetch;
}
