// What the page has seen: rates over time and changes of state. Both are bounded.

import { type Path, type Program, identity } from "./status";

/** Samples of a curve: two minutes, one a second. */
export const SAMPLES = 120;
/** Events that are kept. */
const EVENTS = 50;

export interface Curve {
  /** Seconds since 1970. */
  times: number[];
  /** By radio: Mbit/s in both directions together, over all sessions. `null`: not listed at that time. */
  rates: Map<string, (number | null)[]>;
}

export interface Change {
  at: Date;
  program: string;
  radio: string;
  words: string;
  state: string;
}

const words = (path: Path) => (path.cause ? `${path.state}: ${path.cause}` : path.state);

export class History {
  readonly curves = new Map<string, Curve>();
  changes: Change[] = [];
  #states = new Map<string, string>();

  /** Adds the answers of one moment. */
  add(programs: Program[], now = new Date()) {
    const states = new Map<string, string>();
    const first = this.#states.size === 0 && this.curves.size === 0;
    const seen = new Set<string>();
    for (const program of programs) {
      const name = identity(program);
      seen.add(name);
      const rates = new Map<string, number>();
      for (const session of program.sessions ?? []) {
        for (const path of session.paths) {
          // Several clients' radios are too many curves for one figure.
          const radio = program.sessions?.length === 1 ? path.radio : "all sessions";
          rates.set(radio, (rates.get(radio) ?? 0) + path.send_mbps + path.receive_mbps);
          const key = `${name} ${session.session} ${path.radio}`;
          states.set(key, words(path));
          const before = this.#states.get(key);
          if (before !== states.get(key) && !(first || (before === undefined && path.state === "up"))) {
            const change = { at: now, program: program.role, radio: path.radio, words: words(path), state: path.state };
            this.changes = [change, ...this.changes].slice(0, EVENTS);
          }
        }
      }
      this.#sample(name, rates, now.getTime() / 1000);
    }
    for (const name of this.curves.keys()) if (!seen.has(name)) this.curves.delete(name);
    this.#states = states;
  }

  #sample(name: string, rates: Map<string, number>, time: number) {
    const curve: Curve = this.curves.get(name) ?? { times: [], rates: new Map() };
    this.curves.set(name, curve);
    for (const radio of rates.keys()) {
      if (!curve.rates.has(radio)) curve.rates.set(radio, curve.times.map(() => null));
    }
    curve.times.push(time);
    for (const [radio, samples] of curve.rates) samples.push(rates.get(radio) ?? null);
    if (curve.times.length > SAMPLES) {
      curve.times.shift();
      for (const [radio, samples] of curve.rates) {
        samples.shift();
        if (samples.every((sample) => sample === null)) curve.rates.delete(radio);
      }
    }
  }
}
