// The dashboard: polls the node that serves the page, and shows what is wrong first.

import { prepareActions } from "./actions.js";
import { setToken } from "./api.js";
import { offerLayouts, prepareDecode } from "./decode.js";
import { el, keyed, mark, setText } from "./dom.js";
import { UNKNOWN, duration, plural } from "./format.js";
import { findings } from "./findings.js";
import { PANELS, pageOf } from "./panels.js";
import { Store } from "./store.js";

/** How often due requests are started and ages are updated. */
const TICK_MS = 250;

const byId = (id) => document.getElementById(id);
const parts = {
  findings: byId("findings"),
  verdict: byId("verdict"),
  node: byId("node"),
  cluster: byId("cluster"),
  token: byId("token"),
  news: byId("news"),
};

const panels = Object.entries(PANELS).map(([name, { sources, build }]) => {
  const node = document.querySelector(`[data-panel=${name}]`);
  const content = el("div", { class: "content", hidden: true });
  const note = el("p", { class: "note" });
  node.append(note, content);
  return { node, sources, content, note, age: node.querySelector(".age"), render: build(content) };
});

/** Renders a panel if its data has changed, and once a second for what depends on the time. */
function renderPanel(panel, store, now) {
  const { node, sources, content, note, age, render } = panel;
  const version = [
    Math.floor(now / 1000),
    store.connection,
    ...sources.map((name) => store.sources[name].at),
  ].join();
  if (panel.version === version) return;
  panel.version = version;
  const old = store.age(sources);
  const isStale = store.isStale(sources);
  mark(node, "stale", isStale ? "true" : null);
  content.hidden = old === null;
  setText(age, old === null ? "no data" : `${duration(old / 1000)} old`);
  const errors = sources.map((source) => store.error(source)).filter(Boolean);
  const silence = old === null ? "no response yet" : "the node does not respond";
  const reason = errors.length ? errors[0].message : silence;
  const text = old === null ? `Unknown: ${reason}.` : isStale ? `Stale: ${reason}.` : "";
  setText(note, text);
  note.hidden = text === "";
  if (old !== null) render(store, now);
}

function renderFindings(store, now) {
  const cluster = store.data("cluster");
  const found = findings(store, now);
  const bad = found.filter(({ level }) => level === "bad").length;
  const health = bad ? "bad" : found.length ? "warn" : cluster ? "ok" : UNKNOWN;
  mark(document.body, "health", health);
  const well = cluster
    ? `All well: ${cluster.leader} leads, ${plural(cluster.quorum.can_lose, "node")} may fail`
    : "Waiting for the node …";
  const verdict = found.length ? plural(found.length, "finding") : well;
  setText(parts.verdict, verdict);
  const name = cluster ? cluster.node : location.host;
  setText(parts.node, name);
  setText(parts.cluster, cluster ? orDash(cluster.cluster_id) : "");
  document.title = `${health === "ok" ? "" : `${found.length ? `(${found.length}) ` : ""}`}${name} · seqd`;
  keyed(
    parts.findings,
    found.map((one, at) => ({ ...one, at })),
    ({ at }) => at,
    finding,
    (node, one) => fillFinding(node, one, cluster),
  );
}

const orDash = (text) => text || "no cluster yet";

function finding() {
  return el("li", {}, el("a"), el("span"));
}

/** A finding links to its panel; that of a lost node also to the pages of the others. */
function fillFinding(node, { level, text, panel, links }, cluster) {
  const [anchor, more] = node.children;
  mark(node, "level", level);
  setText(anchor, text);
  if (anchor.getAttribute("href") !== `#${panel}`) anchor.setAttribute("href", `#${panel}`);
  const others = links && cluster ? cluster.members.filter(({ name }) => name !== cluster.node) : [];
  const pages = others.filter(({ http }) => http && pageOf(http));
  keyed(
    more,
    pages,
    ({ name }) => name,
    ({ name, http }) => el("a", { href: pageOf(http) }, `open ${name}`),
    () => {},
  );
}

function render(store) {
  const now = Date.now();
  mark(document.body, "connection", store.connection);
  renderFindings(store, now);
  for (const panel of panels) renderPanel(panel, store, now);
  const refused = Object.values(store.sources).some(({ error }) => error && error.status === 401);
  if (refused) parts.token.hidden = false;
  const cluster = store.data("cluster");
  if (cluster) offerLayouts(byId("decode-layout"), cluster.layouts);
}

function start() {
  let isDue = false;
  const store = new Store(() => {
    if (isDue) return;
    isDue = true;
    requestAnimationFrame(() => {
      isDue = false;
      render(store);
    });
  });
  prepareActions(byId("dialog"), (text) => {
    setText(parts.news, `${new Date().toISOString().slice(11, 19)} UTC: ${text}`);
    store.refresh();
  });
  prepareDecode(
    byId("decode-form"),
    byId("decode-output"),
    document.querySelector("[data-panel=decode] .command"),
  );
  parts.token.addEventListener("submit", (event) => {
    event.preventDefault();
    setToken(parts.token.elements.token.value);
    store.refresh();
  });
  byId("token-toggle").addEventListener("click", () => {
    parts.token.hidden = !parts.token.hidden;
    if (!parts.token.hidden) parts.token.elements.token.focus();
  });
  document.addEventListener("visibilitychange", () => store.poll());
  setInterval(() => {
    if (document.hidden) return;
    store.poll();
    render(store);
  }, TICK_MS);
  store.poll();
  render(store);
}

start();
