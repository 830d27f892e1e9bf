/** Mints IDs until it is killed, one per line. Refusals are passed over. */

import { IdGenerator } from "../dist/index.js";
import { client } from "./support.mjs";

const generator = new IdGenerator(client(), process.argv[2]);
for (;;) {
  try {
    console.log(String(await generator.id()));
  } catch {}
  await new Promise((resolve) => setTimeout(resolve, 1));
}
