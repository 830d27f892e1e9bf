// Checks of the pages in a real browser. Each check continues where the one before it ended.

import { createRequire } from "node:module";
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { Demo } from "./demo.mjs";

const { values: options } = parseArgs({
  options: Object.fromEntries(
    ["chromium", "packages", "binary", "screenshots"].map((name) => [name, { type: "string" }]),
  ),
});
const require = createRequire(join(options.packages, "package.json"));
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const PANELS = ["nodes", "clocks", "ids", "sequences", "workers", "locks", "runway", "decode"];

/**
 * The limit on the time until the page shows that the leader was killed. It begins when the node itself
 * reports it, because a busy machine takes longer to elect another.
 */
const SHOWN_MS = 2000;

/** The limit on every wait of the page. */
const WAIT_MS = 30_000;

/** All requests of all pages, and everything that a browser reports as an error. */
const requests = [];
const troubles = [];

let browser, demo;
let [passed, failed] = [0, 0];

async function check(name, work) {
  const begun = Date.now();
  try {
    const figure = await work();
    passed += 1;
    const took = `${((Date.now() - begun) / 1000).toFixed(1)} s`;
    console.log(`ok ${name} (${figure ? `${figure}; ` : ""}${took})`);
  } catch (error) {
    failed += 1;
    console.log(`FAILED ${name}: ${error.message}`);
  }
}

function must(condition, text) {
  if (!condition) throw new Error(text);
}

async function open(url, settings = {}) {
  const context = await browser.newContext({ viewport: { width: 1400, height: 900 }, ...settings });
  const page = await context.newPage();
  page.setDefaultTimeout(WAIT_MS);
  page.on("request", (request) => requests.push(request.url()));
  page.on("pageerror", (error) => troubles.push(error.message));
  page.on("console", (message) => {
    const text = message.text();
    // The browser itself reports requests that a node refuses or does not answer.
    if (message.type() === "error" && !text.startsWith("Failed to load resource")) troubles.push(text);
  });
  await page.goto(url);
  return page;
}

async function picture(page, name) {
  if (!options.screenshots) return;
  mkdirSync(options.screenshots, { recursive: true });
  const fullPage = !/docs|dialog/.test(name);
  await page.screenshot({ path: join(options.screenshots, `${name}.png`), fullPage });
}

/** Runs axe in the page. It is evaluated by the browser's debugger, so the page's policy holds. */
async function accessible(page) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => globalThis.axe.run());
  const texts = violations.map(({ id, nodes }) => `${id} at ${nodes.map(({ target }) => target).join(", ")}`);
  must(violations.length === 0, texts.join("; "));
}

/** Presses Tab until the element has the focus. */
async function tabTo(page, selector) {
  for (let presses = 1; presses <= 80; presses += 1) {
    await page.keyboard.press("Tab");
    const has = await page.evaluate((wanted) => document.activeElement?.matches(wanted), selector);
    if (has) return presses;
  }
  throw new Error(`the keyboard does not reach ${selector}`);
}

const node = (name, more = "") => `[data-panel=nodes] [data-node=${name}]${more}`;

async function dashboard(page) {
  await check("every panel has a heading, a command and data", async () => {
    await page.waitForSelector("body[data-connection=ok]");
    for (const name of PANELS) {
      const panel = page.locator(`[data-panel=${name}]`);
      must((await panel.locator("h2").count()) === 1, `${name} has no heading`);
      must((await panel.locator(".command").textContent()).startsWith("seqd "), `${name} has no command`);
      if (name !== "decode") await panel.locator(".content:not([hidden])").waitFor();
      if (name !== "decode")
        must(/old$/.test(await panel.locator(".age").textContent()), `${name} has no age`);
    }
    await page.waitForSelector(node("n3", "[data-role=follower][data-state=ready]"));
    must((await page.locator("[data-node][data-role][data-state]").count()) === 3, "three nodes");
    await page.waitForSelector("[data-sequence=order]");
    await page.waitForSelector("[data-lock=nightly-report]");
    await page.waitForSelector("body[data-health=ok]");
  });
  await check("Enter decodes an ID", async () => {
    const { id } = await (
      await fetch(`${demo.urls.n2}/v1/id`, { headers: { accept: "application/json" } })
    ).json();
    await page.fill("input[name=id]", id);
    await page.press("input[name=id]", "Enter");
    await page.waitForFunction(() =>
      /leased to\s*n2/.test(document.querySelector("#decode-output").textContent),
    );
    const command = await page.textContent("[data-panel=decode] .command");
    must(command === `seqd decode ${id}`, command);
    await page.fill("input[name=id]", "no id");
    await page.press("input[name=id]", "Enter");
    await page.waitForSelector("#decode-output .problem");
  });
}

/** Uses nothing but the keyboard. */
async function actions(page) {
  await check("a dialog shows effect and command, and Escape changes nothing", async () => {
    await page.locator("body").press("Home");
    await tabTo(page, node("n3", " [data-action=remove]"));
    await page.keyboard.press("Enter");
    const dialog = page.locator("dialog[open]");
    await dialog.locator("[data-confirm]:enabled").waitFor();
    const text = await dialog.innerText();
    must(/quorum 3\/3 -> 2\/2, can lose 0 nodes/.test(text), text);
    must(text.includes("seqd member remove n3"), text);
    await accessible(page);
    await picture(page, "dialog");
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
    const focused = await page.evaluate(
      (one) => document.activeElement.matches(one),
      node("n3", " [data-action=remove]"),
    );
    must(focused, "the focus returns to the button");
    must((await demo.send("GET", "n1", "/v1/cluster")).members.length === 3, "three members");
  });
  await check("leadership moves by its dialog", async () => {
    const leader = await demo.leader();
    const other = Object.keys(demo.urls).find((name) => name !== leader);
    await carryOut(page, other, "move-leader", [
      `moves leadership from ${leader} to ${other}`,
      `seqd leader move ${other}`,
    ]);
    await page.waitForSelector(node(other, "[data-role=leader]"));
    must((await demo.leader()) === other, "the cluster has another leader");
  });
  await check("a leader is drained and resumed by dialogs", async () => {
    const leader = await demo.leader();
    await carryOut(page, leader, "drain", [`/readyz of ${leader} fails`, `seqd drain ${leader}`]);
    await page.waitForSelector(node(leader, "[data-role=follower][data-state=draining]"));
    await page.waitForSelector("body[data-health=warn]");
    must((await fetch(`${demo.urls[leader]}/readyz`)).status === 503, "the node is not ready");
    must((await demo.leader()) !== leader, "another node leads");
    await accessible(page);
    await picture(page, "drained");
    await carryOut(page, leader, "resume", [`${leader} is ready again`, `seqd resume ${leader}`]);
    await page.waitForSelector(node(leader, "[data-state=ready]"));
    await demo.until(`${leader} is ready`, async () => (await fetch(`${demo.urls[leader]}/readyz`)).ok);
  });
  await check("a learner is promoted and removed by dialogs", async () => {
    await demo.join("n4");
    await page.waitForSelector(node("n4", "[data-role=learner][data-state=ready]"));
    await carryOut(page, "n4", "promote", [
      "quorum 3/3 -> 4/4, can lose 1 node",
      "seqd member promote n4",
    ]);
    await page.waitForSelector(node("n4", "[data-role=follower]"));
    must((await demo.member("n4")).role === "follower", "the cluster has a fourth voter");
    await carryOut(page, "n4", "remove", [
      "quorum 4/4 -> 3/3, can lose 1 node",
      "seqd member remove n4",
    ]);
    await page.locator(node("n4")).waitFor({ state: "detached" });
    must(!(await demo.member("n4")), "the cluster has three members");
  });
}

/** Opens the dialog of an action, compares its text, and confirms it. */
async function carryOut(page, name, action, texts) {
  await page.locator(node(name, ` [data-action=${action}]`)).focus();
  await page.keyboard.press("Enter");
  const dialog = page.locator("dialog[open]");
  await dialog.locator("[data-confirm]:enabled").waitFor();
  const shown = await dialog.innerText();
  for (const text of texts) must(shown.includes(text), `${action} of ${name} shows: ${shown}`);
  await tabTo(page, "[data-confirm]");
  await page.keyboard.press("Enter");
  await dialog.waitFor({ state: "detached" });
  const news = await page.textContent("#news");
  must(news.includes("UTC: Done: "), news);
}

async function failures(page, name) {
  await check("a killed leader is shown", async () => {
    if ((await demo.leader()) === name) {
      const other = Object.keys(demo.urls).find((one) => one !== name);
      await demo.send("POST", name, "/v1/cluster/leader", { node: other });
    }
    const leader = await demo.leader();
    await page.waitForSelector(node(leader, "[data-role=leader]"));
    const begun = Date.now();
    process.kill(demo.pidOf(leader), "SIGKILL");
    const reported = demo.until("another leader", async () => {
      const { members } = await demo.send("GET", name, "/v1/cluster");
      const isNew = (one) => one.role === "leader" && one.state === "ready" && one.name !== leader;
      const isLost = (one) => one.name === leader && one.state === "unreachable";
      return members.some(isNew) && members.some(isLost);
    });
    const reportedAt = reported.then(() => Date.now());
    await page.waitForSelector(node(leader, "[data-state=unreachable]"));
    await page.waitForSelector("[data-panel=nodes] [data-node][data-role=leader][data-state=ready]");
    const shownAt = Date.now();
    const [took, late] = [shownAt - begun, shownAt - (await reportedAt)];
    await page.waitForSelector("body[data-health=bad]");
    await accessible(page);
    await picture(page, "killed-leader");
    const text = `after ${took} ms, ${late} ms after the node reported it`;
    must(late <= SHOWN_MS, text);
    return text;
  });
  await check("a frozen node is lost, and found again", async () => {
    const pid = demo.pidOf(name);
    process.kill(pid, "SIGSTOP");
    try {
      await page.waitForSelector("body[data-connection=lost]");
      await page.waitForSelector("[data-panel=nodes][data-stale]");
      await accessible(page);
      await picture(page, "lost");
      must((await page.locator("#findings a[href$='/ui/']").count()) === 2, "links to the other nodes");
    } finally {
      process.kill(pid, "SIGCONT");
    }
    await page.waitForSelector("body[data-connection=ok]");
    await page.waitForSelector("[data-panel=nodes]:not([data-stale])");
  });
  await check("a stopped node is lost", async () => {
    process.kill(demo.pidOf(name), "SIGTERM");
    await page.waitForSelector("body[data-connection=lost]", { timeout: 20_000 });
  });
}

async function looks(url) {
  for (const colorScheme of ["light", "dark"]) {
    for (const [name, path, ready] of [
      ["ui", "/ui/", "[data-lock]"],
      ["docs", "/docs", "article pre.answer"],
    ]) {
      await check(`axe finds nothing in ${path}, ${colorScheme}`, async () => {
        const page = await open(url + path, { colorScheme });
        await page.waitForSelector(ready);
        await accessible(page);
        await picture(page, `${name}-${colorScheme}`);
        await page.context().close();
      });
    }
  }
  await check("the pages fit a phone", async () => {
    for (const [path, ready] of [
      ["/ui/", "[data-lock]"],
      ["/docs", "article"],
    ]) {
      const page = await open(url + path, { viewport: { width: 390, height: 800 } });
      await page.waitForSelector(ready);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      must(wide <= 0, `${path} is ${wide} pixels too wide`);
      // The other page is the same on a phone but for its width.
      if (path === "/ui/") await accessible(page);
      await picture(page, `phone${path.replaceAll("/", "-")}`);
      await page.context().close();
    }
  });
}

async function description(url) {
  await check("every operation has a command and an example, and is found by search and link", async () => {
    const { paths } = await (await fetch(`${url}/openapi.json`)).json();
    const ids = Object.values(paths).flatMap((methods) =>
      Object.values(methods).map((one) => one.operationId),
    );
    const page = await open(`${url}/docs#acquire_lock`);
    await page.waitForSelector("article");
    for (const id of ids.filter((one) => !one.startsWith("post_"))) {
      const [command, answer] = [page.locator(`#${id} pre.curl`), page.locator(`#${id} pre.answer`)];
      must((await command.textContent()).startsWith("curl -s "), `${id} has no command`);
      must((await answer.textContent()).trim() !== "", `${id} has no example`);
    }
    must(await page.locator("#acquire_lock").isVisible(), "the linked operation is shown");
    await page.waitForFunction(() => {
      const { top } = document.querySelector("#acquire_lock").getBoundingClientRect();
      return top >= 0 && top < innerHeight;
    });
    await page.fill("input[name=search]", "promote member");
    must((await page.locator("article:visible").count()) === 1, "one operation is found");
    must((await page.textContent("#count")).startsWith("1 of "), "the count is shown");
    await page.context().close();
    return `${ids.length} operations`;
  });
}

async function tokens() {
  const secure = await Demo.start(options.binary, ["--secure"]);
  try {
    await check("an access token stays in the memory of the page", async () => {
      const file = /SEQD_TOKEN_FILE=(\S+)/.exec(secure.text)[1];
      const token = readFileSync(file, "utf8").trim();
      const page = await open(`${Object.values(secure.urls)[0]}/ui/`, { ignoreHTTPSErrors: true });
      await page.locator("input[name=token]").waitFor();
      await page.waitForSelector("body[data-health=bad]");
      await accessible(page);
      await page.fill("input[name=token]", token);
      await page.press("input[name=token]", "Enter");
      await page.waitForSelector(node("n1", "[data-state=ready]"));
      const kept = await page.evaluate(
        () => localStorage.length + sessionStorage.length + document.cookie.length,
      );
      must(kept === 0 && !page.url().includes(token), "nothing is stored");
      await page.reload();
      await page.locator("input[name=token]").waitFor();
      must((await page.inputValue("input[name=token]")) === "", "a reload forgets it");
      await page.context().close();
    });
  } finally {
    await secure.stop();
  }
}

async function all() {
  await demo.send("PUT", "n1", "/v1/sequences/order", { mode: "strict" });
  await demo.send("POST", "n1", "/v1/sequences/order/next", { count: 10 });
  await demo.send("POST", "n1", "/v1/locks/nightly-report/acquire", { owner: "host-1", ttl_ms: 600_000 });
  const page = await open(`${demo.urls.n1}/ui/`);
  await dashboard(page);
  await looks(demo.urls.n1);
  await description(demo.urls.n1);
  await actions(page);
  await failures(page, "n1");
  await tokens();
  await check("no request went to another host, and the browser reported no error", async () => {
    const foreign = requests.filter((url) => !/^https?:\/\/127\.0\.0\.1:\d+\//.test(url));
    must(requests.length > 50 && foreign.length === 0, `${foreign}`);
    must(troubles.length === 0, troubles.join("; "));
    return `${requests.length} requests`;
  });
}

try {
  demo = await Demo.start(options.binary);
  browser = await chromium.launch({ executablePath: options.chromium, args: ["--no-sandbox"] });
  await all();
} catch (error) {
  failed += 1;
  console.log(`FAILED ${error.message}`);
} finally {
  await browser?.close();
  await demo?.stop();
}
console.log(`${passed} passed, ${failed} failed, 0 skipped`);
process.exitCode = failed ? 1 : 0;
