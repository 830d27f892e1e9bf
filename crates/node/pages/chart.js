// A line of rates over the last two minutes, as SVG.

import { el, setText } from "./dom.js";
import { rate } from "./format.js";

const SPACE = "http://www.w3.org/2000/svg";
const WIDTH = 240;
const HEIGHT = 36;
const SPAN_MS = 120_000;

export class Chart {
  constructor(label) {
    this.label = label;
    this.svg = shape("svg", {
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      preserveAspectRatio: "none",
      role: "img",
      class: "chart",
    });
    this.area = shape("path", { class: "area" });
    this.line = shape("path", { class: "line" });
    this.svg.append(this.area, this.line);
    this.caption = el("figcaption");
    this.node = el("figure", {}, this.svg, this.caption);
  }

  /** Draws points of `{at, value}`. */
  update(points, now) {
    const shown = points.filter((point) => now - point.at <= SPAN_MS);
    const most = Math.max(0, ...shown.map((point) => point.value));
    const place = ({ at, value }) => {
      const x = WIDTH - ((now - at) / SPAN_MS) * WIDTH;
      const y = HEIGHT - 1 - (most > 0 ? value / most : 0) * (HEIGHT - 3);
      return `${x.toFixed(1)} ${y.toFixed(1)}`;
    };
    const line = shown.length > 1 ? `M${shown.map(place).join("L")}` : "";
    this.line.setAttribute("d", line);
    const end = ({ at }) => (WIDTH - ((now - at) / SPAN_MS) * WIDTH).toFixed(1);
    this.area.setAttribute("d", line && `${line}V${HEIGHT}H${end(shown[0])}Z`);
    const last = shown.length ? rate(shown.at(-1).value) : "unknown";
    const text = `${this.label} ${last}${most > 0 ? `, at most ${rate(most)} in two minutes` : ""}`;
    this.svg.setAttribute("aria-label", text);
    setText(this.caption, text);
  }
}

function shape(name, attributes) {
  const node = document.createElementNS(SPACE, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  return node;
}
