// Elements, and tables that are updated in place, so that the focus stays where it is.
//
// Data reaches the page as text only.

export function el(name, properties = {}, ...children) {
  const node = document.createElement(name);
  set(node, properties);
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

/** Sets attributes; `data` are the `data-` attributes, `on` the listeners. */
function set(node, { data = {}, on = {}, ...attributes }) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === true) node.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(key, value);
  }
  for (const [key, value] of Object.entries(data)) mark(node, key, value);
  for (const [event, listener] of Object.entries(on)) node.addEventListener(event, listener);
}

/** Changes a text only if it differs, so that a selection survives. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Changes a `data-` attribute only if it differs; null removes it. */
export function mark(node, key, value) {
  if (value === null || value === undefined) delete node.dataset[key];
  else if (node.dataset[key] !== String(value)) node.dataset[key] = value;
}

/** Makes the children of a node those of `items`, in order, and keeps the nodes of known keys. */
export function keyed(parent, items, keyOf, create, update) {
  const known = new Map(Array.from(parent.children, (child) => [child.key, child]));
  let place = parent.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    let child = known.get(key);
    known.delete(key);
    if (!child) {
      child = create(item);
      child.key = key;
    }
    if (child === place) place = place.nextElementSibling;
    else parent.insertBefore(child, place);
    update(child, item);
  }
  for (const gone of known.values()) gone.remove();
}

/**
 * A table. A column has a title and `of`, which returns a text, or a text with a level and a title;
 * a column with `fill` fills its cell itself. `data` returns the attributes of a row.
 */
export class Table {
  constructor(label, columns, { key, data = () => ({}), none }) {
    Object.assign(this, { columns, key, data, none });
    this.body = el("tbody");
    const heads = columns.map((column) =>
      el(
        "th",
        { scope: "col", class: column.class },
        column.hidden ? el("span", { class: "hidden" }, column.title) : column.title,
      ),
    );
    const table = el("table", {}, el("thead", {}, el("tr", {}, ...heads)), this.body);
    this.frame = el("div", { class: "frame", role: "group", "aria-label": label }, table);
    this.empty = el("p", { class: "none" });
    this.node = el("div", {}, this.frame, this.empty);
  }

  update(items) {
    this.frame.hidden = items.length === 0;
    this.empty.hidden = items.length > 0;
    setText(this.empty, this.none);
    keyed(
      this.body,
      items,
      this.key,
      () => this.row(),
      (row, item) => this.fill(row, item),
    );
    // A frame that can be scrolled must be reached by the keyboard.
    const scrolls = this.frame.scrollWidth > this.frame.clientWidth + 1;
    if (scrolls) this.frame.tabIndex = 0;
    else this.frame.removeAttribute("tabindex");
  }

  row() {
    const cells = this.columns.map((column, index) =>
      el(index === 0 ? "th" : "td", { class: column.class, scope: index === 0 ? "row" : null }),
    );
    return el("tr", {}, ...cells);
  }

  fill(row, item) {
    for (const [key, value] of Object.entries(this.data(item))) mark(row, key, value);
    this.columns.forEach((column, index) => {
      const cell = row.children[index];
      if (column.fill) return column.fill(cell, item);
      const shown = column.of(item);
      const {
        text,
        level = null,
        title = null,
      } = typeof shown === "object" && shown ? shown : { text: shown };
      setText(cell, String(text));
      mark(cell, "level", text === "unknown" ? "unknown" : level);
      if (title) cell.title = title;
      else cell.removeAttribute("title");
    });
  }
}
