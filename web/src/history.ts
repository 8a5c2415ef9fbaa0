// What the page has seen: rates over time and what changed, with the reason. Both are bounded.

import { type Path, type Program, identity, sessionsOf } from "./status";

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

/** What is known of a program. */
export interface Past extends Curve {
  /** Of the radios of a program's only session: ms, and shares of the bytes sent. */
  rtts: Map<string, (number | null)[]>;
  losses: Map<string, (number | null)[]>;
}

const KINDS = ["rates", "rtts", "losses"] as const;

export interface Change {
  at: Date;
  program: string;
  words: string;
}

const words = (path: Path) => (path.cause ? `${path.state}: ${path.cause}` : path.state);

export class History {
  readonly curves = new Map<string, Past>();
  changes: Change[] = [];
  #states = new Map<string, string>();
  /** Roles of the running programs. */
  #names = new Map<string, string>();
  /** Of the hops of COTAG nodes, by program and name: bytes sent and received, and when. */
  #bytes = new Map<string, { sent: number; received: number; at: number }>();
  #opened = false;

  /** Adds the answers of one moment. */
  add(programs: Program[], now = new Date()) {
    const states = new Map<string, string>();
    const seen = new Set<string>();
    const first = !this.#opened;
    this.#opened = true;
    for (const program of programs) {
      const name = identity(program);
      seen.add(name);
      // A program that starts, and what it has at first, is one event.
      const known = first || !this.#names.has(name);
      const note = (what: string, state: string, said = state) => {
        const key = `${name}\n${what}`;
        states.set(key, state);
        if (!known && this.#states.get(key) !== state) this.#say(program.role, what === "" ? said : `${what} ${said}`, now);
      };
      if (!first && known) this.#say(program.role, `process ${program.pid} runs`, now);
      this.#names.set(name, program.role);
      if (typeof program["state"] === "string") {
        const cause = program["cause"];
        note("", `${program["state"]}${typeof cause === "string" ? `: ${cause}` : ""}`);
      }
      if (program["draining"] === true) note("", "ending", "is ending");
      const sessions = sessionsOf(program);
      if (program.sessions === undefined && program["links"] !== undefined) {
        program.sessions = sessions;
        for (const path of sessions.flatMap((session) => session.paths)) this.#rate(`${name}\n${path.radio}`, path, now.getTime() / 1000);
      }
      const [rates, rtts, losses] = [new Map<string, number>(), new Map<string, number | null>(), new Map<string, number | null>()];
      for (const session of sessions) {
        if (session.session !== null) note(`session ${session.session}`, "open", `is open${session.peer ? `, from ${session.peer}` : ""}`);
        for (const path of session.paths) {
          // Several clients' radios are too many curves for one figure.
          const radio = sessions.length === 1 ? path.radio : "all sessions";
          rates.set(radio, (rates.get(radio) ?? 0) + path.send_mbps + path.receive_mbps);
          if (sessions.length === 1) {
            rtts.set(radio, path.rtt_ms);
            losses.set(radio, path.loss ?? null);
          }
          note(`${path.radio}${sessions.length === 1 ? "" : ` of session ${session.session}`}`, words(path), `is ${words(path)}`);
        }
      }
      this.#sample(name, { rates, rtts, losses }, now.getTime() / 1000);
    }
    for (const [name, role] of this.#names) {
      if (seen.has(name)) continue;
      this.#names.delete(name);
      this.curves.delete(name);
      for (const key of this.#bytes.keys()) if (key.startsWith(`${name}\n`)) this.#bytes.delete(key);
      this.#say(role, "has ended", now);
    }
    for (const key of this.#states.keys()) {
      const [name, what] = key.split("\n") as [string, string];
      const role = this.#names.get(name);
      if (role !== undefined && what.startsWith("session ") && !states.has(key)) this.#say(role, `${what} has ended`, now);
    }
    this.#states = states;
  }

  /** Gives a path its rates since the last answer. */
  #rate(key: string, path: Path, at: number) {
    const before = this.#bytes.get(key);
    this.#bytes.set(key, { sent: path.sent, received: path.received, at });
    if (before === undefined || at <= before.at) return;
    const mbps = (now: number, before_: number) => (8e-6 * Math.max(0, now - before_)) / (at - before.at);
    path.send_mbps = mbps(path.sent, before.sent);
    path.receive_mbps = mbps(path.received, before.received);
  }

  #say(program: string, words: string, at: Date) {
    this.changes = [{ at, program, words }, ...this.changes].slice(0, EVENTS);
  }

  #sample(name: string, now: Record<(typeof KINDS)[number], Map<string, number | null>>, time: number) {
    const curve: Past = this.curves.get(name) ?? { times: [], rates: new Map(), rtts: new Map(), losses: new Map() };
    this.curves.set(name, curve);
    const full = curve.times.length === SAMPLES;
    for (const kind of KINDS) {
      for (const radio of now[kind].keys()) {
        if (!curve[kind].has(radio)) curve[kind].set(radio, curve.times.map(() => null));
      }
      for (const [radio, samples] of curve[kind]) {
        samples.push(now[kind].get(radio) ?? null);
        if (full) samples.shift();
        if (samples.every((sample) => sample === null)) curve[kind].delete(radio);
      }
    }
    curve.times.push(time);
    if (full) curve.times.shift();
  }
}
