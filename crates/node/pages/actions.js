// Changes of the cluster. The server computes the effect first, and nothing happens before the
// operator has seen it next to the command that does the same.

import { Refused, fill, send } from "./api.js";
import { el, keyed, setText } from "./dom.js";

/** A change may wait for a learner or an election. */
const DEADLINE_MS = 10_000;

const ACTIONS = {
  "move-leader": {
    label: ({ role }) => (role === "leader" ? "Move away" : "Make leader"),
    title: ({ name, role }) =>
      role === "leader" ? `Move leadership away from ${name}` : `Make ${name} the leader`,
    method: "POST",
    path: "/v1/cluster/leader",
    body: ({ name, role }) => (role === "leader" ? {} : { node: name }),
    command: ({ name, role }) => (role === "leader" ? "seqd leader move" : `seqd leader move ${name}`),
  },
  drain: {
    label: () => "Drain",
    title: ({ name }) => `Drain ${name}`,
    method: "POST",
    path: "/v1/cluster/members/{name}/drain",
    command: ({ name }) => `seqd drain ${name}`,
  },
  resume: {
    label: () => "Resume",
    title: ({ name }) => `Resume ${name}`,
    method: "POST",
    path: "/v1/cluster/members/{name}/resume",
    command: ({ name }) => `seqd resume ${name}`,
  },
  promote: {
    label: () => "Promote",
    title: ({ name }) => `Make ${name} a voter`,
    method: "POST",
    path: "/v1/cluster/members/{name}/promote",
    command: ({ name }) => `seqd member promote ${name}`,
  },
  remove: {
    label: () => "Remove",
    title: ({ name }) => `Permanently remove ${name}`,
    method: "DELETE",
    path: "/v1/cluster/members/{name}",
    command: ({ name }) => `seqd member remove ${name}`,
    isFinal: true,
  },
};

/** The actions that make sense for a member. The server decides what is permitted. */
function actionsOf({ role, state }, { quorum: { voters } }) {
  const isVoter = role === "leader" || role === "follower";
  return [
    isVoter && voters > 1 && state !== "unreachable" && "move-leader",
    role === "learner" && "promote",
    state === "draining" ? "resume" : state !== "unreachable" && "drain",
    "remove",
  ].filter(Boolean);
}

export function buttons(cell, member, cluster) {
  if (!cell.firstElementChild) cell.append(el("div", { class: "buttons" }));
  const create = (name) => {
    const button = el("button", { type: "button", data: { action: name } });
    button.addEventListener("click", () => open(name, button.member));
    return button;
  };
  keyed(
    cell.firstElementChild,
    actionsOf(member, cluster),
    (name) => name,
    create,
    (button, name) => {
      button.member = member;
      const label = ACTIONS[name].label(member);
      setText(button, label);
      const title = `${label}: ${member.name}`;
      if (button.getAttribute("aria-label") !== title) button.setAttribute("aria-label", title);
    },
  );
}

let dialog, done;

/** `after` is called with the result of each change. */
export function prepareActions(node, after) {
  [dialog, done] = [node, after];
  const part = (name) => dialog.querySelector(`[data-part=${name}]`);
  dialog.parts = Object.fromEntries(
    ["title", "effect", "command", "problem"].map((name) => [name, part(name)]),
  );
  dialog.confirm = dialog.querySelector("[data-confirm]");
  dialog.cancel = dialog.querySelector("[data-cancel]");
  dialog.cancel.addEventListener("click", () => dialog.close());
  dialog.confirm.addEventListener("click", () => carryOut());
}

/** This node as an endpoint of a command. Without the scheme, a command without --cacert uses http. */
function endpoint() {
  const port = location.protocol === "https:" ? ":443" : ":80";
  return location.port ? location.origin : location.origin + port;
}

/** Shows the effect of a change, as the server computes it. */
async function open(name, member) {
  const action = ACTIONS[name];
  const { title, effect, command, problem } = dialog.parts;
  dialog.pending = { name, member, action };
  const { pending } = dialog;
  setText(title, action.title(member));
  setText(effect, "The node computes the effect …");
  setText(command, `${action.command(member)} -e ${endpoint()}`);
  setText(problem, "");
  setText(dialog.confirm, action.label(member));
  setText(dialog.cancel, "Cancel");
  dialog.confirm.disabled = true;
  dialog.dataset.final = Boolean(action.isFinal);
  dialog.showModal();
  dialog.cancel.focus();
  try {
    const plan = await ask(pending, { dry_run: 1 });
    if (dialog.pending !== pending) return;
    setText(effect, plan.effect);
    dialog.confirm.disabled = false;
  } catch (error) {
    if (dialog.pending !== pending) return;
    setText(effect, "Nothing: the node refuses this change.");
    show(error);
  }
}

function ask({ member, action }, query) {
  return send(action.method, fill(action.path, { name: member.name }), {
    query: { ...query, timeout_ms: DEADLINE_MS },
    body: action.body ? action.body(member) : undefined,
    waitMs: DEADLINE_MS + 2000,
  });
}

async function carryOut() {
  const { pending } = dialog;
  const { title } = dialog.parts;
  dialog.confirm.disabled = true;
  setText(dialog.confirm, "Working …");
  try {
    await ask(pending, {});
    done(`Done: ${title.textContent}`);
    if (dialog.pending === pending) dialog.close();
  } catch (error) {
    const isUnknown = !(error instanceof Refused) || error.code === "outcome-unknown";
    const result = isUnknown ? "The outcome is unknown" : "Refused";
    done(`${result}: ${title.textContent}`);
    if (dialog.pending !== pending) return;
    setText(dialog.confirm, pending.action.label(pending.member));
    setText(dialog.cancel, "Close");
    if (isUnknown)
      setText(dialog.parts.effect, "The outcome is unknown: look at the nodes before you repeat it.");
    show(error);
    dialog.cancel.focus();
  }
}

function show(error) {
  const code = error.code ? ` (${error.code})` : "";
  setText(dialog.parts.problem, `${error.message}${code}${error.hint ? `. ${error.hint}` : ""}`);
}
