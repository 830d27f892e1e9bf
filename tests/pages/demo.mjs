// A demo cluster, and the processes of its nodes.

import { spawn } from "node:child_process";
import { readFileSync, readdirSync } from "node:fs";
import { once } from "node:events";

const START_MS = 30_000;

export class Demo {
  /** Starts `seqd demo` and waits until it has printed its addresses. */
  static async start(binary, options = []) {
    const demo = new Demo();
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
    if (this.process.exitCode !== null || this.process.signalCode) return;
    this.process.removeAllListeners("exit");
    const ended = once(this.process, "exit");
    this.process.kill("SIGTERM");
    await ended;
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
