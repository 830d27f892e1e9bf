// node-redlock 4 over ioredis: lock, extend, unlock, expiry, contenders through different nodes.

import { Redis } from "ioredis";
import Redlock from "redlock4";
import { NODES, RUN, check, contend, done, equal, rejects, until } from "./checks.js";

const clients = NODES.map((node) => new Redis(node));
const once = new Redlock([clients[0]], { retryCount: 0 });
const elsewhere = new Redlock([clients.at(-1)], { retryCount: 0 });
const name = `${RUN}:redlock4`;

const lock = await once.lock(name, 5000);
check("lock", lock.expiration > Date.now(), lock.value);
await rejects("a second lock", elsewhere.lock(name, 5000), "Exceeded 0 attempts");
const extended = await lock.extend(9000);
check("extend", extended.expiration > Date.now() + 7000, extended.expiration - Date.now());
const left = await clients[0].pttl(name);
check("time left", left > 7000 && left <= 9000, left);
const foreign = new Redlock.Lock(elsewhere, [name], "not-the-value", Date.now() + 5000, 1, 1);
await rejects("extend by another", foreign.extend(1000), "Exceeded 0 attempts");
await rejects("unlock by another", foreign.unlock(), "Unable to fully release");
await lock.unlock();
equal("unlocked", await clients[0].get(name), null);
await rejects("unlock twice", lock.unlock(), "Unable to fully release");

const short = await once.lock(name, 300);
let next = null;
const acquired = await until(
  async () => (next = await elsewhere.lock(name, 5000).catch(() => null)),
);
equal("an expired lock can be acquired", acquired, true);
await rejects("unlock after expiry", short.unlock(), "Unable to fully release");
await next.unlock();

const patient = clients.map(
  (client) => new Redlock([client], { retryCount: -1, retryDelay: 30, retryJitter: 20 }),
);
await contend("contenders exclude each other", async (work, contender) => {
  const held = await patient[contender % patient.length].lock(name, 10_000);
  await work();
  await held.unlock();
});
done();
