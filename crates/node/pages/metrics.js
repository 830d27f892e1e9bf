// Prometheus's text format: the samples that the page uses.

const LINE = /^(\w+)(?:\{(.*)\})? (\S+)$/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;

export class Metrics {
  /** Reads the samples of seqd, except the histograms of requests. */
  constructor(text) {
    this.samples = new Map();
    for (const line of text.split("\n")) {
      if (!line.startsWith("seqd_") || line.startsWith("seqd_http_")) continue;
      const [, name, labels = "", value] = LINE.exec(line) || [];
      if (!name) continue;
      const sample = { value: Number(value), labels: {} };
      for (const [, key, text] of labels.matchAll(LABEL)) {
        sample.labels[key] = text.replace(/\\(.)/g, (_, after) => (after === "n" ? "\n" : after));
      }
      if (!this.samples.has(name)) this.samples.set(name, []);
      this.samples.get(name).push(sample);
    }
  }

  all(name) {
    return this.samples.get(name) || [];
  }

  /** The value of a metric, or null if the node does not have it. */
  value(name, labels = {}) {
    const fits = (sample) => Object.entries(labels).every(([key, value]) => sample.labels[key] === value);
    const found = this.all(name).find(fits);
    return found ? found.value : null;
  }

  /** The sum over all labels, or null if there is no sample. */
  sum(name) {
    const samples = this.all(name);
    return samples.length ? samples.reduce((sum, sample) => sum + sample.value, 0) : null;
  }
}
