// The panels: what each shows of the state of the page.

import { buttons } from "./actions.js";
import { nodeNow } from "./api.js";
import { Chart } from "./chart.js";
import { Table, el, keyed, setText } from "./dom.js";
import { UNKNOWN, bytes, grouped, orUnknown, plural, rate, until } from "./format.js";
import { rateOf, ratesOf } from "./history.js";
import { LITTLE, left, levelOfRest, runway } from "./runway.js";
import { ROWS } from "./store.js";

const STATE_LEVELS = { ready: "ok", unreachable: "bad", skewed: "bad" };

/** Trouble first, then by name. */
function byTrouble(members) {
  const order = ({ state }) => (state === "ready" ? 1 : 0);
  return [...members].sort((a, b) => order(a) - order(b) || a.name.localeCompare(b.name));
}

function nodes(body) {
  const summary = el("p", { class: "summary" });
  let cluster;
  const table = new Table(
    "Nodes",
    [
      { title: "Node", of: ({ name }) => (name === cluster.node ? `${name} (this page)` : name) },
      { title: "Role", of: ({ role }) => role },
      { title: "State", of: ({ state }) => ({ text: state, level: STATE_LEVELS[state] || "warn" }) },
      { title: "Applied", class: "number", of: ({ applied }) => orUnknown(applied) },
      {
        title: "Lag",
        class: "number",
        of: ({ lag_entries: lag, state }) => ({
          text: orUnknown(lag),
          level: lag > 1000 && state !== "unreachable" ? "warn" : null,
        }),
      },
      {
        title: "IDs",
        class: "number",
        of: ({ ids_per_second: ids, state }) => rate(state === "unreachable" ? null : ids),
      },
      { title: "Version", of: ({ version }) => orUnknown(version) },
      { title: "Address", fill: address },
      { title: "Actions", class: "actions", fill: (cell, member) => buttons(cell, member, cluster) },
    ],
    {
      key: ({ name }) => name,
      data: ({ name, role, state }) => ({ node: name, role, state }),
      none: "The node knows no members yet.",
    },
  );
  body.append(summary, table.node);
  return (store) => {
    cluster = store.data("cluster");
    const { voters, reachable, can_lose: spare } = cluster.quorum;
    const leader = cluster.leader ? `${cluster.leader} leads in term ${cluster.term}` : "no leader";
    setText(
      summary,
      `${leader}; ${reachable} of ${plural(voters, "voter")} reachable, ${plural(spare, "node")} may fail`,
    );
    table.update(byTrouble(cluster.members));
  };
}

/** A link to the page of a member, which opens instead of this one. */
function address(cell, { name, http, peer }) {
  const link = pageOf(http);
  if (!link) return setText(cell, peer);
  if (!cell.firstElementChild) cell.replaceChildren(el("a"));
  const anchor = cell.firstElementChild;
  if (anchor.getAttribute("href") !== link) anchor.setAttribute("href", link);
  setText(anchor, new URL(link).host);
  anchor.title = `the page of ${name}`;
}

/** The URL of a member's page, or null if its address is no URL for browsers. */
export function pageOf(http) {
  try {
    const url = new URL("/ui/", http);
    return /^https?:$/.test(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

const AGREEMENT = {
  agreed: "The clocks of a majority agree.",
  split: "The clocks of no majority agree.",
  alone: "This node is the only voter.",
  unknown: "Unknown: this node has measured too few clocks.",
};

function clocks(body) {
  const summary = el("p", { class: "summary" });
  let cluster;
  const ms = (value) =>
    value === null || value === undefined ? UNKNOWN : `${value > 0 ? "+" : ""}${value.toFixed(1)} ms`;
  const table = new Table(
    "Clocks",
    [
      { title: "Node", of: ({ name }) => name },
      {
        title: "Offset",
        class: "number",
        of: ({ name, clock_offset_ms: offset }) => (name === cluster.node ? "reference" : ms(offset)),
      },
      {
        title: "Against the majority",
        class: "number",
        of: ({ clock_ahead_ms: ahead, clock_offset_ms: offset, name }) => {
          if (typeof ahead === "number") return { text: ms(ahead), level: "bad" };
          const isMeasured = cluster.clocks === "agreed" && (name === cluster.node || offset !== null);
          return isMeasured ? { text: "agrees", level: "ok" } : UNKNOWN;
        },
      },
      {
        title: "Drift",
        class: "number",
        of: ({ name, clock_drift_ppm: drift }) =>
          name === cluster.node ? "reference" : drift === null ? UNKNOWN : `${drift.toFixed(1)} µs/s`,
      },
    ],
    { key: ({ name }) => name, none: "The node knows no members yet." },
  );
  body.append(summary, table.node);
  return (store) => {
    cluster = store.data("cluster");
    setText(summary, AGREEMENT[cluster.clocks] || AGREEMENT.unknown);
    table.update(cluster.members.map(withoutOldClock));
  };
}

/** The node keeps the last measurement of an unreachable member, which says nothing about its clock. */
function withoutOldClock(member) {
  if (member.state !== "unreachable") return member;
  return { ...member, clock_offset_ms: null, clock_ahead_ms: null, clock_drift_ppm: null };
}

function ids(body) {
  const summary = el("p", { class: "summary" });
  const charts = el("div", { class: "charts" });
  const table = new Table(
    "IDs of this node",
    [
      { title: "Layout", of: ({ layout }) => layout },
      { title: "Minted here", class: "number", of: ({ minted }) => grouped(minted) },
      { title: "Rate", class: "number", of: ({ layout }) => rate(rateOf(`ids ${layout}`)) },
      { title: "Worker", class: "number", of: ({ worker }) => orUnknown(worker) },
      {
        title: "Window ends",
        of: ({ fence }) =>
          fence === null
            ? UNKNOWN
            : { text: until(fence * 1000), level: fence * 1000 < nodeNow() ? "bad" : null },
      },
    ],
    { key: ({ layout }) => layout, none: "This node holds no worker." },
  );
  body.append(summary, charts, table.node);
  return (store, now) => {
    const metrics = store.data("metrics");
    const rows = metrics.all("seqd_ids_generated_total").map(({ labels: { layout }, value }) => ({
      layout,
      minted: value,
      worker: metrics.value("seqd_worker_id", { layout }),
      fence: metrics.value("seqd_worker_fence_timestamp_seconds", { layout }),
    }));
    const cluster = store.data("cluster");
    setText(summary, cluster ? idsOfAll(cluster.members) : "All nodes: unknown");
    keyed(
      charts,
      rows,
      ({ layout }) => layout,
      chartOf("IDs of", "layout"),
      (node, { layout }) => node.chart.update(ratesOf(`ids ${layout}`), now),
    );
    table.update(rows);
  };
}

function chartOf(label, name) {
  return (row) => {
    const chart = new Chart(`${label} ${row[name]}:`);
    chart.node.chart = chart;
    return chart.node;
  };
}

function idsOfAll(members) {
  const isKnown = ({ ids_per_second: ids, state }) => typeof ids === "number" && state !== "unreachable";
  const unknown = members.filter((member) => !isKnown(member)).map(({ name }) => name);
  const sum = members.filter(isKnown).reduce((sum, { ids_per_second: ids }) => sum + ids, 0);
  return `All nodes: ${rate(sum)}${unknown.length ? `, without ${unknown.join(", ")} (${UNKNOWN})` : ""}`;
}

/** The lists of the node: a summary, perhaps a chart, and a table of the first rows. */
function list(source, word, { columns, key, data, order, chart }) {
  return (body) => {
    const summary = el("p", { class: "summary" });
    const drawn = chart && new Chart(chart.label);
    const table = new Table(`${word}s`, columns, { key, data, none: `There are no ${word}s.` });
    body.append(summary, ...(drawn ? [drawn.node] : []), table.node);
    return (store, now) => {
      const { items, next_cursor: more } = store.data(source);
      setText(
        summary,
        more ? `The first ${ROWS} ${word}s, by name; the command lists all.` : plural(items.length, word),
      );
      if (drawn) {
        drawn.node.hidden = items.length === 0;
        drawn.update(ratesOf(chart.series), now);
      }
      table.update(order ? [...items].sort(order) : items);
    };
  };
}

const sequences = list("sequences", "sequence", {
  columns: [
    { title: "Sequence", class: "name", of: ({ name }) => name },
    { title: "Mode", of: ({ mode }) => mode },
    {
      title: "Next",
      class: "number",
      of: ({ next }) => (next === null ? { text: "none", level: "bad" } : grouped(next)),
    },
    { title: "Granted", class: "number", of: ({ name }) => rate(rateOf(`sequence ${name}`)) },
    {
      title: "Left",
      class: "number",
      of: (sequence) => {
        if (sequence.remaining === null) return "cycles";
        const ratio = left(sequence);
        const level = levelOfRest(ratio);
        return {
          text: `${+(ratio * 100).toFixed(1)} %`,
          level,
          title: `${grouped(sequence.remaining)} values`,
        };
      },
    },
  ],
  key: ({ name }) => name,
  data: ({ name }) => ({ sequence: name }),
  order: (a, b) => Number(left(b) < LITTLE) - Number(left(a) < LITTLE) || (a.name < b.name ? -1 : 1),
  chart: { label: "Values granted:", series: "values" },
});

const workers = list("workers", "lease", {
  columns: [
    { title: "Owner", class: "name", of: ({ owner, node }) => (node ? owner : `${owner} (outside)`) },
    { title: "Layout", of: ({ layout }) => layout },
    {
      title: "Worker",
      class: "number",
      of: ({ datacenter, worker }) => (datacenter === null ? worker : `${datacenter}/${worker}`),
    },
    { title: "Lease", of: ({ live }) => (live ? "live" : "ended") },
    { title: "Fence", of: ({ fence_time: time }) => ({ text: until(Date.parse(time)), title: time }) },
  ],
  key: ({ layout, id }) => `${layout} ${id}`,
});

const locks = list("locks", "lock", {
  columns: [
    { title: "Lock", class: "name", of: ({ name }) => name },
    {
      title: "Holder",
      class: "name",
      of: ({ holders, held }) =>
        held === 0 ? "nobody" : `${orUnknown(holders[0]?.owner)}${held > 1 ? ` and ${held - 1} more` : ""}`,
    },
    { title: "Token", class: "number", of: ({ holders }) => holders[0]?.token ?? "" },
    {
      title: "Expires",
      of: ({ holders, delayed_ms: delay }) => {
        if (holders[0]) return until(nodeNow() + holders[0].expires_in_ms);
        return delay > 0 ? { text: `delayed, ${until(nodeNow() + delay)}`, level: "warn" } : "";
      },
    },
    {
      title: "Waiting",
      class: "number",
      of: ({ waiting }) => ({ text: waiting, level: waiting > 0 ? "warn" : null }),
    },
  ],
  key: ({ name }) => name,
  data: ({ name }) => ({ lock: name }),
  order: (a, b) => b.waiting - a.waiting || (a.name < b.name ? -1 : 1),
  chart: { label: "Locks granted:", series: "locks" },
});

function ends(body) {
  const table = new Table(
    "Runway",
    [
      { title: "What", of: ({ what }) => what },
      {
        title: "Ends",
        of: ({ end, level }) =>
          end === null
            ? { text: "no end in sight", level }
            : { text: until(end), level, title: new Date(end).toISOString() },
      },
      { title: "Date", of: ({ end }) => (end === null ? "" : new Date(end).toISOString().slice(0, 10)) },
      { title: "Detail", of: ({ detail }) => detail },
    ],
    { key: ({ what }) => what, none: "Nothing is known." },
  );
  body.append(table.node);
  return (store) => {
    const used = store.data("metrics").sum("seqd_storage_bytes");
    const rows = runway(store, nodeNow());
    const disk = rows.find(({ what }) => what === "disk");
    if (disk) disk.detail += `, ${bytes(used)} used by seqd`;
    table.update(rows);
  };
}

/** Each panel with the sources that it needs. */
export const PANELS = {
  nodes: { sources: ["cluster"], build: nodes },
  runway: { sources: ["cluster", "metrics"], build: ends },
  ids: { sources: ["metrics"], build: ids },
  clocks: { sources: ["cluster"], build: clocks },
  sequences: { sources: ["sequences"], build: sequences },
  locks: { sources: ["locks"], build: locks },
  workers: { sources: ["workers"], build: workers },
};
