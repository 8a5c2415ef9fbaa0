// What the stand says of itself, and changes of its radios. Its form: crates/tributary-lab/src/show/answers.rs.

import { type Curve, SAMPLES } from "../history";
import type { Path } from "../status";

/** What is absent or null is the scenario's. */
export interface Change {
  rate_mbps: number | null;
  blocked: boolean;
}

export interface Radio {
  name: string;
  address: string;
  most_mbps: number;
  asked: Change;
}

export interface Link {
  path: string;
  direction: "down" | "up";
  rate_mbps: number;
  blocked: boolean;
  delivered_bytes: number;
}

/** A player in `tributary status --json`, as docs/guide/status.md describes it. */
export interface PlayerStatus {
  state: string;
  cause: string | null;
  video: { qps: number[] } | null;
  shown: { slot: number; tiles: number[] } | null;
  so_far: { slots: number; slots_incomplete: number; tiles_in_time: number; tiles_not_in_time: number; tiles_left_out: number; bytes: number };
  /** Of one picture of some slots; `null` before the first one, or without the source. */
  quality: { slot: number; viewport_psnr_db: number | null; every: number } | null;
  radios?: Path[];
}

export interface Side {
  name: string;
  label: string;
  links: Link[];
  player: PlayerStatus | null;
  inexact: string[];
}

export interface Now {
  scenario: string;
  description: string;
  radios: Radio[];
  sides: Side[];
}

/** Asks for the numbers; rejects if the stand does not answer. */
export async function ask(): Promise<Now> {
  const answer = await fetch("now", { cache: "no-store", signal: AbortSignal.timeout(5000) });
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return (await answer.json()) as Now;
}

/** Changes radios one after the other; of several changes of a radio that wait, only the last one is made. */
export class Changes {
  /** What was asked for and is not answered yet. */
  readonly waiting = new Map<string, Change>();
  #busy = false;
  readonly #done: (error: string | undefined) => Promise<void>;

  constructor(done: (error: string | undefined) => Promise<void>) {
    this.#done = done;
  }

  ask(radio: string, change: Change) {
    this.waiting.set(radio, change);
    void this.#send();
  }

  async #send() {
    if (this.#busy) return;
    this.#busy = true;
    for (let next = this.#next(); next !== undefined; next = this.#next()) {
      const [path, change] = next;
      const error = await send({ path, ...change });
      await this.#done(error);
      // A change that came meanwhile is sent, too.
      if (this.waiting.get(path) === change) this.waiting.delete(path);
    }
    this.#busy = false;
  }

  #next() {
    return [...this.waiting][0];
  }
}

async function send(change: Change & { path: string }): Promise<string | undefined> {
  try {
    const answer = await fetch("change", { method: "POST", body: JSON.stringify(change), signal: AbortSignal.timeout(5000) });
    return answer.ok ? undefined : (await answer.text()).trim();
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** Rates are means over so many samples. */
const MEAN_OF = 3;

/** Rates of a radio over time: its own, and what each side carries on it. */
export class Rates {
  readonly curves = new Map<string, Curve>();
  #before: { at: number; now: Now }[] = [];

  add(now: Now, at = Date.now() / 1000) {
    this.#before.push({ at, now });
    const first = this.#before[0]!;
    if (this.#before.length > MEAN_OF) this.#before.shift();
    for (const { name } of now.radios) {
      const curve: Curve = this.curves.get(name) ?? { times: [], rates: new Map() };
      this.curves.set(name, curve);
      const down = (of: Now, side: number) => of.sides[side]?.links.find((link) => link.path === name && link.direction === "down");
      const link = down(now, 0);
      curve.times.push(at);
      const push = (label: string, rate: number | null) => {
        const rates = curve.rates.get(label) ?? [];
        curve.rates.set(label, rates);
        rates.push(rate);
      };
      push("the radio", link === undefined ? null : link.blocked ? 0 : link.rate_mbps);
      now.sides.forEach((side, index) => {
        const bytes = (down(now, index)?.delivered_bytes ?? 0) - (down(first.now, index)?.delivered_bytes ?? 0);
        push(side.label, at > first.at ? (8e-6 * bytes) / (at - first.at) : null);
      });
      while (curve.times[0]! < at - SAMPLES) {
        curve.times.shift();
        for (const rates of curve.rates.values()) rates.shift();
      }
    }
  }
}
