// node-redis: counters, nulls, pipelining, errors, in both protocols.

import { createClient } from "redis";
import {
  NODES,
  RELEASE,
  RUN,
  TARGET,
  check,
  checkDifferences,
  done,
  equal,
  rejects,
} from "./checks.js";

for (const RESP of [3, 2]) {
  console.log(`# protocol ${RESP}`);
  const client = await createClient({ socket: NODES[0], RESP }).connect();
  const name = `${RUN}:node-redis:${RESP}`;
  equal("ping", await client.ping(), "PONG");
  equal("incr", await client.incr(name), 1);
  equal("incrBy", await client.incrBy(name, 9), 10);
  equal("get", await client.get(name), "10");
  equal("get of an unknown name", await client.get(`${name}:unknown`), null);
  equal(
    "100 incr at once",
    await Promise.all(Array.from({ length: 100 }, () => client.incr(name))),
    Array.from({ length: 100 }, (_, i) => i + 11),
  );
  equal("exists, ttl", [await client.exists(name), await client.ttl(name)], [1, -1]);

  const lock = `${name}:lock`;
  const nx = { condition: "NX", expiration: { type: "PX", value: 5000 } };
  equal("set nx px", await client.set(lock, "me", nx), "OK");
  equal("set nx px of a held lock", await client.set(lock, "you", nx), null);
  const left = await client.pTTL(lock);
  check("pTTL", left > 3000 && left <= 5000, left);
  equal("eval by another", await client.eval(RELEASE, { keys: [lock], arguments: ["you"] }), 0);
  const sha = await client.scriptLoad(RELEASE);
  equal(
    "evalSha of a loaded script",
    await client.evalSha(sha, { keys: [lock], arguments: ["me"] }),
    1,
  );
  equal("get after release", await client.get(lock), null);

  await rejects("an error", client.sendCommand(["NOSUCH"]), "unknown command");
  equal("the connection continues", await client.incr(name), 111);
  if (TARGET === "seqd") {
    await rejects("multi", client.multi().incr(`${name}:multi`).exec(), "no transactions");
    await checkDifferences((words) => client.sendCommand(words), name, `${name}:unused`);
  }
  await client.close();
}
done();
