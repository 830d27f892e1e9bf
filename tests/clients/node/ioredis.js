// ioredis: counters, nulls, a script as a command, automatic pipelining, errors.

import { Redis } from "ioredis";
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

for (const protocol of [3, 2]) {
  console.log(`# protocol ${protocol}`);
  const client = new Redis({ ...NODES[0], protocol });
  const name = `${RUN}:ioredis:${protocol}`;
  equal("incr", await client.incr(name), 1);
  equal("incrby", await client.incrby(name, 9), 10);
  equal("get", await client.get(name), "10");
  equal("get of an unknown name", await client.get(`${name}:unknown`), null);
  equal(
    "50 incr at once",
    await Promise.all(Array.from({ length: 50 }, () => client.incr(name))),
    Array.from({ length: 50 }, (_, i) => i + 11),
  );

  const pipeline = client.pipeline().incr(name).get(`${name}:unknown`).call("NOSUCH").incr(name);
  const replies = await pipeline.exec();
  equal(
    "a pipeline",
    [replies[0], replies[1], replies[3]],
    [
      [null, 61],
      [null, null],
      [null, 62],
    ],
  );
  check(
    "the error in it",
    replies[2][0]?.message.includes("unknown command"),
    replies[2][0]?.message,
  );

  const lock = `${name}:lock`;
  equal("set px nx", await client.set(lock, "me", "PX", 5000, "NX"), "OK");
  equal("set px nx of a held lock", await client.set(lock, "you", "PX", 5000, "NX"), null);
  client.defineCommand("unlock", {
    numberOfKeys: 1,
    lua: RELEASE,
  });
  equal("a script as a command, by another", await client.unlock(lock, "you"), 0);
  equal("a script as a command", await client.unlock(lock, "me"), 1);
  await rejects("an error", client.call("NOSUCH"), "ERR unknown command");
  if (TARGET === "seqd") {
    await checkDifferences((words) => client.call(...words), name, `${name}:unused`);
    equal("SEQD.ID", (await client.call("SEQD.ID", 3)).length, 3);
  }
  equal("quit", await client.quit(), "OK");
}
done();
