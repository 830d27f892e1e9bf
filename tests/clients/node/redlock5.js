// node-redlock 5 over ioredis: acquire, extend, release, `using`, expiry, contenders.

import { Redis } from "ioredis";
import Redlock from "redlock5";
import { NODES, RUN, check, contend, done, equal, rejects, until } from "./checks.js";

const clients = NODES.map((node) => new Redis(node));

function redlock(client, settings = { retryCount: 0 }) {
  const lock = new Redlock([client], settings);
  lock.on("error", () => {});
  return lock;
}

const once = redlock(clients[0]);
const elsewhere = redlock(clients.at(-1));
const name = `${RUN}:redlock5`;

const lock = await once.acquire([name], 5000);
check("acquire", lock.expiration > Date.now(), lock.value);
await rejects("a second acquire", elsewhere.acquire([name], 5000), "unable to achieve a quorum");
const extended = await lock.extend(9000);
check("extend", extended.expiration > Date.now() + 7000, extended.expiration - Date.now());
await extended.release();
equal("released", await clients[0].get(name), null);
await rejects("release twice", extended.release(), "unable to achieve a quorum");

const short = await once.acquire([name], 300);
let next = null;
const acquired = await until(
  async () => (next = await elsewhere.acquire([name], 5000).catch(() => null)),
);
equal("an expired lock can be acquired", acquired, true);
await rejects("extend after expiry", short.extend(1000), "already-expired");
await rejects("release after expiry", short.release(), "unable to achieve a quorum");
await next.release();
const used = await elsewhere.using([name], 2000, async (signal) =>
  signal.aborted ? "aborted" : "used",
);
equal("using", used, "used");

const patient = clients.map((client) =>
  redlock(client, { retryCount: -1, retryDelay: 30, retryJitter: 20 }),
);
await contend("contenders exclude each other", async (work, contender) => {
  const held = await patient[contender % patient.length].acquire([name], 10_000);
  await work();
  await held.release();
});
done();
