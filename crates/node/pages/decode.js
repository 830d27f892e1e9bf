// Decodes an ID that the operator enters.

import { Refused, fill, send } from "./api.js";
import { el, setText } from "./dom.js";
import { until } from "./format.js";

export function prepareDecode(form, output, command) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const id = form.elements.id.value.trim();
    const layout = form.elements.layout.value;
    const format = form.elements.format.value;
    if (!id) return;
    const options = [layout && ` --layout ${layout}`, format && ` --format ${format}`];
    setText(command, `seqd decode ${id}${options.filter(Boolean).join("")}`);
    const query = Object.fromEntries(Object.entries({ layout, format }).filter(([, value]) => value));
    try {
      const parts = await send("GET", fill("/v1/ids/{id}", { id }), { query, waitMs: 5000 });
      output.replaceChildren(described(parts));
    } catch (error) {
      const hint = error instanceof Refused && error.hint ? `. ${error.hint}` : "";
      output.replaceChildren(el("p", { class: "problem" }, `${error.message}${hint}`));
    }
  });
}

/** Offers the layouts in use. */
export function offerLayouts(select, layouts) {
  const known = Array.from(select.options, (option) => option.value);
  for (const { name } of layouts) {
    if (!known.includes(name) && name !== "default") select.append(el("option", { value: name }, name));
  }
}

function described(parts) {
  const { holder } = parts;
  const lease = holder && `${holder.owner}, lease ${holder.lease}`;
  const rows = {
    time: `${parts.time} (${until(parts.unix_ms)})`,
    worker: parts.worker,
    datacenter: parts.datacenter,
    sequence: parts.sequence,
    layout: parts.layout,
    "leased to": lease || "nobody",
    origin: parts.origin_detail || parts.origin,
    hex: parts.hex,
    base62: parts.base62,
    crockford: parts.crockford,
  };
  const shown = Object.entries(rows).filter(([, value]) => value !== null && value !== undefined);
  return el("dl", {}, ...shown.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, String(value))]));
}
