/** What needs no cluster: arguments that are refused, and the texts of errors. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { Client, SeqdError } from "../dist/index.js";
import { nodeFetch } from "../dist/node.js";

test("a token with a line break is refused without its text", () => {
  for (const token of ["secret\n", " secret", "s\u00e9cret"]) {
    const isRefused = (error) => error instanceof RangeError && !error.message.includes("cret");
    assert.throws(() => new Client("n1", { token }), isRefused);
  }
});

test("a CA file without a certificate is refused", () => {
  const cacert = new URL(import.meta.url).pathname;
  assert.throws(() => nodeFetch({ cacert }), RangeError);
});

test("the text of an error has its hint", () => {
  const error = new SeqdError("not-found", "there is no sequence ordr", "did you mean order?");
  assert.equal(error.message, "there is no sequence ordr (not-found); hint: did you mean order?");
});
