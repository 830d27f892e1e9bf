// What is wrong, the worst first. Each finding names the panel that shows more.

import { nodeNow } from "./api.js";
import { duration, plural, rate, until } from "./format.js";
import { rateOf } from "./history.js";
import { runway } from "./runway.js";

const STATES = {
  unreachable: ["bad", "is unreachable from this node"],
  skewed: ["bad", "has a clock that disagrees with the majority"],
  "catching-up": ["warn", "is catching up"],
  waiting: ["warn", "waits"],
  draining: ["warn", "is drained"],
  unknown: ["warn", "has an unknown state"],
};

export function findings(store, now) {
  const all = [
    ...connection(store, now),
    ...quorum(store.data("cluster")),
    ...members(store.data("cluster")),
    ...readiness(store.data("ready")),
    ...refusedIds(store),
    ...disk(store.data("metrics")),
    ...ends(store),
    ...unread(store),
  ];
  return all.sort((a, b) => (a.level === "bad" ? 0 : 1) - (b.level === "bad" ? 0 : 1));
}

function connection(store, now) {
  if (store.connection !== "lost") return [];
  const since = store.heardAt ? `for ${duration((now - store.heardAt) / 1000)}` : "";
  const text = `The node that serves this page has not responded ${since}: everything below is old`;
  return [{ level: "bad", text: text.replace("  ", " "), panel: "nodes", links: true }];
}

function quorum(cluster) {
  if (!cluster) return [];
  const { voters, reachable, can_lose: spare } = cluster.quorum;
  const found = [];
  const bad = (text) => found.push({ level: "bad", text, panel: "nodes" });
  if (!cluster.leader) bad("No leader: only IDs are served, until the windows of the workers end");
  const reach = `${reachable} of ${plural(voters, "voter")} reachable`;
  if (reachable < Math.floor(voters / 2) + 1) bad(`No quorum: ${reach}`);
  else if (spare === 0 && voters > 1) bad(`No further node may fail: ${reach}`);
  else if (spare === 0) found.push({ level: "warn", text: "One voter: no node may fail", panel: "nodes" });
  return found;
}

function members(cluster) {
  if (!cluster) return [];
  const found = [];
  for (const { name, state, clock_ahead_ms: ahead } of cluster.members) {
    const [level, text] = STATES[state] || (state === "ready" ? [] : ["warn", `is ${state}`]);
    const off =
      ahead === null || ahead === undefined
        ? ""
        : ` (${Math.abs(ahead).toFixed(0)} ms ${ahead < 0 ? "behind" : "ahead"})`;
    if (level)
      found.push({ level, text: `${name} ${text}${off}`, panel: state === "skewed" ? "clocks" : "nodes" });
  }
  if (cluster.clocks === "split") {
    found.push({
      level: "bad",
      text: "The clocks of no majority agree: any of them may be wrong",
      panel: "clocks",
    });
  }
  return found;
}

function readiness(ready) {
  if (!ready || ready.ready) return [];
  const failed = ready.checks.filter(({ ok }) => !ok);
  return failed.map(({ name, detail }) => ({
    level: "bad",
    text: `This node is not ready, ${name}: ${detail}`,
    panel: name === "ids" ? "ids" : "nodes",
  }));
}

function refusedIds(store) {
  const metrics = store.data("metrics");
  const refused = metrics ? metrics.all("seqd_ids_refused_total") : [];
  return refused.flatMap(({ labels: { layout, code } }) => {
    const perSecond = rateOf(`refused ${layout} ${code}`);
    if (!(perSecond > 0)) return [];
    return [
      { level: "bad", text: `This node refuses IDs of ${layout}, ${code}: ${rate(perSecond)}`, panel: "ids" },
    ];
  });
}

function disk(metrics) {
  const stalled = metrics ? metrics.value("seqd_raft_disk_stalled_seconds") : 0;
  if (!(stalled > 0)) return [];
  return [
    {
      level: "bad",
      text: `The disk of this node has not answered for ${duration(stalled)}`,
      panel: "runway",
    },
  ];
}

function ends(store) {
  const near = runway(store, nodeNow()).filter(({ level }) => level);
  return near.map(({ what, end, detail, level }) => {
    const when = end === null ? "" : ` ends ${until(end)}`;
    return { level, text: `${what[0].toUpperCase()}${what.slice(1)}${when}: ${detail}`, panel: "runway" };
  });
}

/** Requests that the node refuses. One refusal for want of a token stands for all. */
function unread(store) {
  const refused = Object.entries(store.sources).filter(([, { error }]) => error && error.code);
  const token = refused.find(([, { error }]) => error.status === 401);
  if (token) {
    const text = "This node requires an access token with the scope read: enter it above";
    return [{ level: "bad", text, panel: "token" }];
  }
  return refused.map(([name, { error }]) => ({
    level: "warn",
    text: `The node does not return its ${name}: ${error.message} (${error.code})`,
    panel: name in PANELS ? PANELS[name] : name,
  }));
}

const PANELS = { cluster: "nodes", ready: "nodes", metrics: "ids" };
