// The state of the page: what the node returned last, when, and what it refused since.

import { Refused, Unanswered, send } from "./api.js";
import { record } from "./history.js";
import { Metrics } from "./metrics.js";

/** The rows of a list on the page. Longer lists are for the command line. */
export const ROWS = 100;

/** The most requests at a time: the page must not take the place of the node's own clients. */
const AT_ONCE = 2;

/** The requests in the order of their importance. */
const SOURCES = {
  cluster: { path: "/v1/cluster", everyMs: 1000 },
  ready: { path: "/readyz", query: { verbose: 1 }, everyMs: 1000, read: (ready) => ready },
  metrics: { path: "/metrics", everyMs: 2000, read: (text) => new Metrics(text) },
  locks: { path: "/v1/locks", query: { stale: 1, limit: ROWS }, everyMs: 2000 },
  sequences: { path: "/v1/sequences", query: { stale: 1, limit: ROWS }, everyMs: 2000 },
  workers: { path: "/v1/workers", query: { limit: ROWS }, everyMs: 4000 },
};

/** Data this many periods old is stale. */
const STALE_PERIODS = 3;

export class Store {
  constructor(changed) {
    this.changed = changed;
    this.running = 0;
    this.connection = "connecting";
    /** The time of the last response of any kind. */
    this.heardAt = null;
    this.sources = {};
    for (const [name, source] of Object.entries(SOURCES)) {
      this.sources[name] = { ...source, data: null, at: null, error: null, dueAt: 0, busy: false };
    }
  }

  data(name) {
    return this.sources[name].data;
  }

  error(name) {
    return this.sources[name].error;
  }

  /** The age of the oldest of these sources in milliseconds; null if one has no data. */
  age(names) {
    const times = names.map((name) => this.sources[name].at);
    return times.includes(null) ? null : Date.now() - Math.min(...times);
  }

  isStale(names) {
    if (this.connection === "lost") return true;
    return names.some((name) => {
      const { at, everyMs } = this.sources[name];
      return at === null || Date.now() - at > STALE_PERIODS * everyMs;
    });
  }

  /** Makes every source due, for example after an action. */
  refresh() {
    for (const source of Object.values(this.sources)) source.dueAt = 0;
    this.poll();
  }

  /** Starts the requests that are due. A lost node is asked for its cluster only. */
  poll() {
    if (document.hidden) return;
    for (const [name, source] of Object.entries(this.sources)) {
      if (this.running >= AT_ONCE) return;
      const isDue = !source.busy && Date.now() >= source.dueAt;
      if (isDue && (this.connection !== "lost" || name === "cluster")) this.load(name, source);
    }
  }

  async load(name, source) {
    source.busy = true;
    this.running += 1;
    source.dueAt = Date.now() + source.everyMs;
    try {
      const read = await send("GET", source.path, { query: source.query });
      this.accept(name, source, source.read ? source.read(read) : read);
    } catch (error) {
      this.refuse(name, source, error);
    }
    source.busy = false;
    this.running -= 1;
    this.changed();
    this.poll();
  }

  accept(name, source, data) {
    Object.assign(source, { data, at: Date.now(), error: null });
    this.heard();
    if (name === "metrics") recordMetrics(data, source.at);
    if (name === "sequences") recordSequences(data, source.at);
  }

  refuse(name, source, error) {
    if (error instanceof Refused) {
      this.heard();
      // A node that is not ready returns its checks with the refusal.
      const { checks } = error.problem;
      if (name === "ready" && checks) return this.accept(name, source, { ready: false, checks });
    } else if (error instanceof Unanswered) {
      if (name === "cluster") this.connection = "lost";
    } else {
      console.error(error);
    }
    source.error = error;
  }

  heard() {
    this.heardAt = Date.now();
    if (this.connection === "ok") return;
    this.connection = "ok";
    for (const source of Object.values(this.sources)) source.dueAt = 0;
  }
}

function recordMetrics(metrics, at) {
  for (const { labels, value } of metrics.all("seqd_ids_generated_total")) {
    record(`ids ${labels.layout}`, value, at);
  }
  for (const { labels, value } of metrics.all("seqd_ids_refused_total")) {
    record(`refused ${labels.layout} ${labels.code}`, value, at);
  }
  record("locks", metrics.value("seqd_lock_grants_total"), at);
  record("stored", metrics.sum("seqd_storage_bytes"), at);
}

function recordSequences({ items }, at) {
  let sum = 0;
  for (const { name, allocated } of items) {
    record(`sequence ${name}`, Number(allocated), at);
    sum += Number(allocated);
  }
  record("values", sum, at);
}
