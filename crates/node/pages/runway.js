// What ends first: layouts, workers, sequences, certificates, disk space.

import { bytes, percent, plural } from "./format.js";
import { rateOf, spanOf } from "./history.js";

const DAY = 86_400_000;
const BAD_MS = 7 * DAY;
const WARN_MS = 30 * DAY;

/** The shortest observation from which an end is estimated. */
const OBSERVED_MS = 30_000;

/** An end that is estimated from a rate of minutes is not shown beyond this. */
const ESTIMATE_MS = 3650 * DAY;

/** The sequences that are listed: those with the earliest end or the smallest rest. */
const SEQUENCES = 5;

/** The ends in order, the first one first. `end` is a time in milliseconds, or null. */
export function runway(store, now) {
  const ends = [
    ...layouts(store.data("cluster")),
    ...sequences(store, now),
    ...certificates(store.data("metrics")),
    ...disk(store.data("metrics"), now),
  ];
  for (const one of ends) one.level ??= levelOf(one.end, now);
  const order = ({ end, level }) => [level === "bad" ? 0 : level === "warn" ? 1 : 2, end ?? Infinity];
  return ends.sort((a, b) => {
    const [left, right] = [order(a), order(b)];
    return left[0] - right[0] || (left[1] === right[1] ? 0 : left[1] - right[1]);
  });
}

function levelOf(end, now) {
  if (end === null || end - now > WARN_MS) return null;
  return end - now > BAD_MS ? "warn" : "bad";
}

/** The time in milliseconds; null if there is none, or if it is after the year 9999. */
const timeOf = (text) => (text && Date.parse(text)) || null;

function layouts(cluster) {
  if (!cluster) return [];
  return cluster.layouts.flatMap((layout) => {
    const { name, workers_assigned: used, workers_capacity: all, workers_exhausted_at: gone } = layout;
    const left = layout.workers_free_for_clients;
    return [
      { what: `layout ${name}`, end: timeOf(layout.exhausted_at), detail: "its time field is full" },
      {
        what: `workers of ${name}`,
        end: timeOf(gone),
        level: left === 0 ? "bad" : left / (used + left) < 0.1 ? "warn" : undefined,
        detail: `${used} of ${plural(all, "worker")} leased${gone ? "" : ", no growth"}`,
      },
    ];
  });
}

/** The part of a sequence's values below which little of it is left. */
export const LITTLE = 0.1;

/** The part of a sequence's values that is left. */
export const left = ({ remaining, allocated }) => Number(remaining) / (Number(remaining) + Number(allocated) || 1);

export const levelOfRest = (part) => (part < 0.02 ? "bad" : part < LITTLE ? "warn" : null);

function sequences(store, now) {
  const list = store.data("sequences");
  if (!list) return [];
  const bounded = list.items.filter(({ remaining }) => remaining !== null);
  const ends = bounded.map((sequence) => {
    const name = sequence.name;
    const rest = Number(sequence.remaining);
    const part = left(sequence);
    const rate = spanOf(`sequence ${name}`) >= OBSERVED_MS ? rateOf(`sequence ${name}`, 120_000) : null;
    const leftMs = rate > 0 ? (rest / rate) * 1000 : null;
    return {
      what: `sequence ${name}`,
      end: rest === 0 ? now : leftMs !== null && leftMs < ESTIMATE_MS ? now + leftMs : null,
      level: levelOfRest(part),
      part,
      detail: `${percent(part)} of its values left${leftMs === null ? "" : ", at the rate of two minutes"}`,
    };
  });
  ends.sort((a, b) => (a.end ?? Infinity) - (b.end ?? Infinity) || a.part - b.part);
  return ends.slice(0, SEQUENCES);
}

function certificates(metrics) {
  if (!metrics) return [];
  const found = metrics.all("seqd_tls_certificate_expiry_timestamp_seconds");
  if (!found.length) return [{ what: "certificates", end: null, detail: "this node has none: no TLS" }];
  return found.map(({ labels, value }) => ({
    what: `certificate for ${labels.use === "peer" ? "peers" : "clients"}`,
    end: value * 1000,
    detail: "of this node",
  }));
}

function disk(metrics, now) {
  const free = metrics && metrics.value("seqd_disk_free_bytes");
  if (free === null) return [];
  const reserve = metrics.value("seqd_disk_reserve_bytes") ?? 0;
  const growth = spanOf("stored") >= OBSERVED_MS ? rateOf("stored", 120_000) : null;
  const leftMs = growth > 0 ? (Math.max(0, free - reserve) / growth) * 1000 : null;
  // The log grows in steps of whole segments, so only a near end is more than noise.
  const isLasting = leftMs === null || leftMs > BAD_MS;
  return [
    {
      what: "disk",
      end: isLasting ? null : now + leftMs,
      // Growth of minutes says little about days, so the space alone sets the level.
      level: free < 2 * reserve ? "bad" : free < 8 * reserve ? "warn" : null,
      detail: `${bytes(free)} free on this node${isLasting ? "" : ", at the growth of two minutes"}`,
    },
  ];
}
