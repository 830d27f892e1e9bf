// A demo cluster, and the processes of its nodes.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** The limit on every wait for the cluster: a node starts in about a second, on a busy machine later. */
const START_MS = 60_000;

export class Demo {
  /** Starts `seqd demo` and waits until it has printed its addresses. */
  static async start(binary, options = []) {
    const demo = new Demo();
    demo.binary = binary;
    demo.process = spawn(binary, ["demo", ...options], { stdio: ["ignore", "pipe", "inherit"] });
    demo.text = "";
    const ready = new Promise((resolve, reject) => {
      const late = setTimeout(() => reject(new Error(`the demo is not ready: ${demo.text}`)), START_MS);
      demo.process.on("exit", (code) => reject(new Error(`the demo ended with ${code}: ${demo.text}`)));
      demo.process.stdout.on("data", (chunk) => {
        demo.text += chunk;
        if (!/^ {2}(DEV MODE|TLS for clients)/m.test(demo.text)) return;
        clearTimeout(late);
        resolve();
      });
    });
    await ready;
    demo.urls = Object.fromEntries(
      [...demo.text.matchAll(/^ {2}(n\d) +\w+ +(https?:\/\/\S+)/gm)].map(([, name, url]) => [name, url]),
    );
    return demo;
  }

  async stop() {
    this.process.removeAllListeners("exit");
    await end(this.process, "SIGTERM");
    if (!this.joined) return;
    await end(this.joined.process, "SIGKILL");
    rmSync(this.joined.folder, { recursive: true, force: true });
  }

  /** Starts a node outside the demo and adds it as a learner. */
  async join(name) {
    const folder = mkdtempSync(join(tmpdir(), "seqd-joined."));
    const [http, peer] = (await freePorts(2)).map((port) => `127.0.0.1:${port}`);
    const { members } = await this.send("GET", "n1", "/v1/cluster");
    const peers = members.map((member) => `${member.name}=${member.peer}`).join(",");
    const words = ["server", "--name", name, "--data-dir", join(folder, "data"), "--http-listen", http];
    words.push("--peer-listen", peer, "--peer-peers", `${name}=${peer},${peers}`);
    const node = spawn(this.binary, words, { stdio: "ignore" });
    this.joined = { process: node, folder };
    const member = { name, peer, http: `http://${http}` };
    // A node that does not listen yet is refused.
    const add = () => this.send("POST", "n1", "/v1/cluster/members", member).then(Boolean, () => false);
    await this.until(`${name} is a member`, add);
    await this.until(`${name} is ready`, async () => (await this.member(name))?.state === "ready");
  }

  async member(name) {
    const { members } = await this.send("GET", "n1", "/v1/cluster");
    return members.find((member) => member.name === name);
  }

  /** Waits for a condition of the cluster. */
  async until(what, isTrue) {
    const end = Date.now() + START_MS;
    while (!(await isTrue())) {
      if (Date.now() > end) throw new Error(`${what}: not within ${START_MS} ms`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  /** The process of a node: a descendant of the demo that runs its configuration. */
  pidOf(name) {
    const parents = new Map();
    for (const pid of readdirSync("/proc").filter((entry) => /^\d+$/.test(entry))) {
      try {
        const [, parent] = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
        parents.set(Number(pid), Number(parent));
      } catch {
        // It has ended meanwhile.
      }
    }
    const isOurs = (pid) => pid === this.process.pid || (parents.has(pid) && isOurs(parents.get(pid)));
    const runs = (pid) => readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(`/${name}.toml`);
    const found = [...parents.keys()].filter((pid) => isOurs(pid) && runs(pid));
    if (!found.length) throw new Error(`no process of ${name}`);
    return Math.max(...found);
  }

  async send(method, name, path, body) {
    const response = await fetch(this.urls[name] + path, {
      method,
      headers: body ? { "content-type": "application/json" } : {},
      body: body && JSON.stringify(body),
    });
    if (!response.ok) throw new Error(`${method} ${path}: ${await response.text()}`);
    return response.json();
  }

  async leader() {
    for (const name of Object.keys(this.urls)) {
      const cluster = await this.send("GET", name, "/v1/cluster").catch(() => ({}));
      if (cluster.leader) return cluster.leader;
    }
    throw new Error("no leader");
  }
}

async function end(process, signal) {
  if (process.exitCode !== null || process.signalCode) return;
  const ended = once(process, "exit");
  process.kill(signal);
  await ended;
}

async function freePorts(count) {
  const servers = Array.from({ length: count }, () => createServer().listen(0, "127.0.0.1"));
  await Promise.all(servers.map((server) => once(server, "listening")));
  const ports = servers.map((server) => server.address().port);
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
}
