// The last minutes of numbers that only grow, and the rates that follow from them.

/** Two minutes of one sample each two seconds, and some more for a jittering timer. */
const MOST = 64;

/** More names are not followed: a page shows a hundred rows at most, and a chart per panel. */
const MOST_SERIES = 512;

const series = new Map();

/** Records the value of a counter at a time in milliseconds. */
export function record(name, value, at) {
  if (value === null || value === undefined || Number.isNaN(value)) return;
  let points = series.get(name);
  if (!points) {
    if (series.size >= MOST_SERIES) return;
    series.set(name, (points = []));
  }
  const last = points.at(-1);
  // A smaller value is that of a restarted node.
  if (last && value < last.value) points.length = 0;
  if (!last || at > last.at) points.push({ at, value });
  if (points.length > MOST) points.shift();
}

/** The rate per second over up to `overMs`, or null if there is too little data. */
export function rateOf(name, overMs = 10_000) {
  const points = series.get(name) || [];
  const last = points.at(-1);
  const first = last && points.find((point) => last.at - point.at <= overMs);
  if (!last || first === last) return null;
  return ((last.value - first.value) * 1000) / (last.at - first.at);
}

/** The time that the record of a counter covers, in milliseconds. */
export function spanOf(name) {
  const points = series.get(name) || [];
  return points.length < 2 ? 0 : points.at(-1).at - points[0].at;
}

/** The rates between neighbouring samples, for a chart. */
export function ratesOf(name) {
  const points = series.get(name) || [];
  return points.slice(1).map((point, index) => {
    const before = points[index];
    return { at: point.at, value: ((point.value - before.value) * 1000) / (point.at - before.at) };
  });
}
