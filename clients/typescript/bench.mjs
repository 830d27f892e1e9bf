/** Prints rates as ratios to a bare loop. `clients/run --bench typescript` */

import { Client, IdGenerator } from "./dist/index.js";
import { nodeFetch } from "./dist/node.js";

const MS = 1000;

async function rate(round) {
  let done = 0;
  const began = performance.now();
  while (performance.now() - began < MS) done += await round();
  return (done * 1000) / (performance.now() - began);
}

const client = new Client(undefined, { fetch: nodeFetch() });
const name = `bench-${process.pid}`;
await client.create(name, "segment");
const generator = new IdGenerator(client, name);
const ranges = client.ranges(name, 1_000_000);
await generator.id();
await ranges.next();
let count = 0n;
const times = (n, one) => async () => {
  for (let i = 0; i < n; i++) await one();
  return n;
};
const rows = {
  "a bare loop": () => {
    for (let i = 0; i < 1000; i++) count += 1n;
    return 1000;
  },
  "IdGenerator.tryId": () => {
    let minted = 0;
    for (let i = 0; i < 1000; i++) minted += generator.tryId() === null ? 0 : 1;
    return minted;
  },
  "IdGenerator.id": times(1000, () => generator.id()),
  "IdGenerator.ids(1000)": async () => (await generator.ids(1000)).length,
  "Ranges.next": times(1000, () => ranges.next()),
  "Client.next": times(10, () => client.next(name)),
  "Client.id": times(10, () => client.id()),
};
let bare;
for (const [label, round] of Object.entries(rows)) {
  const perSecond = await rate(round);
  bare ??= perSecond;
  const ratio = (perSecond / bare).toFixed(5);
  console.log(`${label.padEnd(24)}${perSecond.toFixed(0).padStart(12)}/s  ${ratio}`);
}
await generator.close();
await ranges.close();
await client.deleteSequence(name);
