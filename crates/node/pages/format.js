// Numbers, durations and times as text. An unknown value is always the same word.

import { nodeNow } from "./api.js";

export const UNKNOWN = "unknown";

const UNITS = [
  ["y", 365.25 * 86400],
  ["d", 86400],
  ["h", 3600],
  ["min", 60],
  ["s", 1],
];

/** A duration with one unit, such as `68 y` or `12 s`. */
export function duration(seconds) {
  if (seconds === null || !Number.isFinite(seconds)) return UNKNOWN;
  const size = Math.abs(seconds);
  const [unit, length] = UNITS.find(([, length]) => size >= 2 * length) || UNITS.at(-1);
  return `${seconds < 0 ? "-" : ""}${Math.floor(size / length)} ${unit}`;
}

/** The time until an instant, or since it. */
export function until(time, now = nodeNow()) {
  const seconds = (time - now) / 1000;
  if (!Number.isFinite(seconds)) return UNKNOWN;
  return seconds < 0 ? `${duration(-seconds)} ago` : `in ${duration(seconds)}`;
}

/** A rate with three digits, such as `12.0 k/s`. */
export function rate(perSecond) {
  return perSecond === null || perSecond === undefined ? UNKNOWN : `${short(perSecond)}/s`;
}

export function short(number) {
  const steps = [
    [1e9, " G"],
    [1e6, " M"],
    [1e3, " k"],
  ];
  const [size, unit] = steps.find(([size]) => number >= size) || [1, ""];
  const value = number / size;
  return (value >= 100 || Number.isInteger(value) ? value.toFixed(0) : value.toFixed(1)) + unit;
}

export function bytes(number) {
  return number === null || number === undefined ? UNKNOWN : `${short(number)}${number < 1000 ? " " : ""}B`;
}

export function percent(ratio) {
  return ratio > 0.999 && ratio < 1 ? "99.9 %" : `${+(ratio * 100).toFixed(1)} %`;
}

/** An integer in groups of three digits. Takes the text of any length. */
export function grouped(text) {
  if (text === null || text === undefined) return UNKNOWN;
  return String(text).replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

export function plural(count, word) {
  return `${count} ${word}${count === 1 ? "" : "s"}`;
}

export function orUnknown(value) {
  return value === null || value === undefined || value === "" ? UNKNOWN : String(value);
}
