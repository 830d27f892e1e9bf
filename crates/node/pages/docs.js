// The description of the API for people: each operation with a command and an example of its response.

import { send } from "./api.js";
import { el, setText } from "./dom.js";
import { plural } from "./format.js";

const byId = (id) => document.getElementById(id);

/** The titles of the groups, which are the tags of the operations. */
const TITLES = {
  id: "IDs",
  ids: "IDs",
  uuid: "UUIDs",
  uuids: "UUIDs",
  timestamps: "Timestamps",
  layouts: "Layouts",
  sequences: "Sequences",
  workers: "Workers",
  locks: "Locks",
  idempotency: "Idempotency keys",
  tokens: "One-time tokens",
  cluster: "Cluster",
  access: "Access tokens",
  node: "The node",
  config: "The node",
};

/** The methods of a path in the order of the page. */
const VERBS = ["get", "post", "put", "patch", "delete"];

/** The operations in groups, in the order of the document. A POST like a GET is not repeated. */
function groupsOf(document) {
  const groups = new Map();
  for (const [path, methods] of Object.entries(document.paths)) {
    for (const verb of VERBS.filter((verb) => verb in methods)) {
      const operation = methods[verb];
      if (operation.operationId === `post_${methods.get?.operationId}`) continue;
      const tag = operation.tags[0];
      const title = TITLES[tag] || tag;
      if (!groups.has(title)) groups.set(title, []);
      const isAlsoPost = methods.post?.operationId === `post_${operation.operationId}`;
      groups.get(title).push({ path, verb, operation, isAlsoPost });
    }
  }
  const order = Object.values(TITLES);
  return [...groups].sort(([a], [b]) => place(order, a) - place(order, b));
}

const place = (order, title) => (order.includes(title) ? order.indexOf(title) : order.length);

const success = ({ responses }) => responses[Object.keys(responses).find((status) => status < "300")];

/** The form with an example is the one that a caller without preference receives. */
function exampleOf(operation) {
  const content = success(operation)?.content || {};
  const example = Object.values(content)
    .map(({ example }) => example)
    .find((one) => one !== undefined);
  if (example === undefined) return `(${Object.keys(content).join(", ")})`;
  return typeof example === "string" ? example : JSON.stringify(example, null, 1).replace(/\n\s*/g, " ");
}

const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replace(/'/g, "'\\''")}'`);

function curl({ path, verb, operation }) {
  const given = (place) =>
    (operation.parameters || []).filter((one) => one.in === place && one.example !== undefined);
  const values = Object.fromEntries(given("path").map(({ name, example }) => [name, example]));
  const filled = path.replace(/\{(\w+)\}/g, (_, name) =>
    encodeURIComponent(values[name] ?? name.toUpperCase()),
  );
  const query = new URLSearchParams(given("query").map(({ name, example }) => [name, example])).toString();
  const url = `${location.origin}${filled}${query ? `?${query}` : ""}`;
  const body = operation.requestBody?.content["application/json"]?.example;
  const words = ["curl", "-s"];
  if (verb !== "get") words.push("-X", verb.toUpperCase());
  words.push(quoted(url));
  if (body) words.push("-H", "'content-type: application/json'", "-d", quoted(JSON.stringify(body)));
  if (success(operation)?.content?.["application/octet-stream"]) words.push("-o", "seqd.snapshot");
  return words.join(" ");
}

/** The fields of the query, and those of the body. */
function fieldsOf(operation) {
  const parameters = operation.parameters.map((one) => ({ ...one, place: one.in }));
  const properties = operation.requestBody?.content["application/json"].schema.properties || {};
  const body = Object.entries(properties).map(([name, schema]) => ({
    name,
    place: "body",
    description: schema.description,
    schema,
  }));
  return [...parameters, ...body];
}

function table(operation) {
  const rows = fieldsOf(operation).map(({ name, place, required, description }) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, el("code", {}, name)),
      el("td", {}, required ? `${place}, required` : place),
      el("td", {}, description || (place === "path" ? "In the path." : "")),
    ),
  );
  const heads = ["Field", "In", "Meaning"].map((title) => el("th", { scope: "col" }, title));
  return el("table", {}, el("thead", {}, el("tr", {}, ...heads)), el("tbody", {}, ...rows));
}

function errorsOf({ responses }) {
  const names = Object.values(responses).flatMap(({ $ref }) =>
    $ref ? $ref.split("/").at(-1).split(".") : [],
  );
  return [...new Set(names)].sort();
}

function article(entry) {
  const { path, verb, operation, isAlsoPost } = entry;
  const id = operation.operationId;
  const method = el("span", { class: "verb", data: { verb } }, verb.toUpperCase());
  const post = isAlsoPost ? " POST is the same." : "";
  return el(
    "article",
    { id, "aria-labelledby": `${id}-title` },
    el("h3", { id: `${id}-title` }, el("a", { href: `#${id}` }, method, el("span", { class: "mono" }, path))),
    el("p", {}, `${operation.summary}${post}`),
    operation.description ? el("p", { class: "muted" }, operation.description.replace(/`/g, "")) : null,
    el("h4", {}, "Request"),
    el("pre", { class: "curl" }, curl(entry)),
    el("h4", {}, "Response"),
    el("pre", { class: "answer" }, exampleOf(operation)),
    el("details", {}, el("summary", {}, plural(fieldsOf(operation).length, "field")), table(operation)),
    el(
      "details",
      {},
      el("summary", {}, plural(errorsOf(operation).length, "error code")),
      el("p", { class: "mono" }, errorsOf(operation).join(", ")),
    ),
  );
}

function show(document) {
  setText(byId("version"), `version ${document.info.version}`);
  const entries = [];
  for (const [title, group] of groupsOf(document)) {
    const links = group.map((entry) => {
      const { path, verb, operation } = entry;
      const link = el(
        "a",
        { href: `#${operation.operationId}` },
        `${verb.toUpperCase()} ${path.replace("/v1/", "")}`,
      );
      const [item, section] = [el("li", {}, link), article(entry)];
      entries.push({
        item,
        section,
        text: `${verb} ${path} ${operation.operationId} ${operation.summary} ${title}`.toLowerCase(),
      });
      return item;
    });
    const sections = entries.slice(-group.length).map(({ section }) => section);
    byId("index").append(el("div", { class: "group" }, el("h2", {}, title), el("ul", {}, ...links)));
    byId("operations").append(
      el("section", { class: "group", "aria-label": title }, el("h2", {}, title), ...sections),
    );
  }
  return entries;
}

/** Shows the operations with all words, and hides groups without any. */
function search(entries, words) {
  let found = 0;
  for (const { item, section, text } of entries) {
    const fits = words.every((word) => text.includes(word));
    item.hidden = section.hidden = !fits;
    found += fits;
  }
  for (const group of document.querySelectorAll(".group")) {
    group.hidden = !group.querySelector("li:not([hidden]), article:not([hidden])");
  }
  setText(byId("count"), `${found} of ${plural(entries.length, "operation")}`);
}

async function start() {
  try {
    const entries = show(await send("GET", "/openapi.json", { waitMs: 10_000 }));
    const field = document.querySelector("input[name=search]");
    const update = () => search(entries, field.value.toLowerCase().split(/\s+/).filter(Boolean));
    field.addEventListener("input", update);
    update();
    // The browser looked for the anchor before the operations were there. The page appears at the
    // linked operation, without scrolling past all the others.
    const linked = location.hash && byId(decodeURIComponent(location.hash.slice(1)));
    linked?.scrollIntoView({ behavior: "instant" });
  } catch (error) {
    setText(byId("problem"), `The description of the API cannot be read: ${error.message}`);
  }
}

start();
