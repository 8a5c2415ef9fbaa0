// The programs' answers, as docs/guide/status.md describes them.

import type { Tiles } from "./tiles";

export interface Path {
  radio: string;
  state: string;
  cause: string | null;
  /** `null`: nobody counts it. */
  since_s: number | null;
  rtt_ms: number | null;
  /** Share of the bytes sent that TCP sent again; absent where nobody counts them. */
  loss?: number | null;
  send_mbps: number;
  receive_mbps: number;
  sent: number;
  received: number;
}

export interface Session {
  session: string | null;
  peer: string | null;
  /** `null`: it has none, it is a COTAG node. */
  connections: number | null;
  memory: number;
  age_s: number;
  sent: number;
  received: number;
  sent_again: number;
  paths: Path[];
}

export interface Client {
  client: string;
  sessions: number;
  sent: number;
  received: number;
}

export interface Program {
  role: string;
  pid: number;
  started: number;
  uptime_s: number;
  listening: string[];
  sessions?: Session[];
  clients?: Client[];
  destinations?: { destination: string; connections: number }[];
  /** Everything else that a program says of itself. */
  [key: string]: unknown;
}

/** A hop of a COTAG node to another one (docs/guide/cotag.md). */
interface Link {
  name: string;
  up: boolean;
  stalled: boolean;
  rtt_ms?: number | null;
  sent_bytes: number;
  received_bytes: number;
}

/** A hop as a path; its rates are not counted by the node. */
const pathOf = ({ name, up, stalled, rtt_ms, sent_bytes, received_bytes }: Link): Path => ({
  radio: name,
  state: stalled ? "silent" : up ? "up" : "down",
  cause: stalled ? "packets are not answered" : up ? null : "the other node was not heard in the last second",
  since_s: null,
  rtt_ms: rtt_ms ?? null,
  send_mbps: 0,
  receive_mbps: 0,
  sent: sent_bytes,
  received: received_bytes,
});

/** A program's sessions. A player has one, of which it shows the radios, and a COTAG node one, of which it shows the hops. */
export function sessionsOf(program: Program): Session[] {
  const { radios, links } = program as { radios?: Path[]; links?: Link[] };
  if (program.sessions !== undefined) return program.sessions;
  const [paths, connections] = Array.isArray(links) ? [links.map(pathOf), null] : [radios, 1];
  if (!Array.isArray(paths)) return [];
  const sum = (of: (path: Path) => number) => paths.reduce((all, path) => all + of(path), 0);
  const bytes = { sent: sum((path) => path.sent), received: sum((path) => path.received) };
  return [{ session: null, peer: null, connections, memory: 0, age_s: program.uptime_s, ...bytes, sent_again: 0, paths }];
}

/** The tiles that a player shows, if it shows any. */
export function tilesOf(program: Program): Tiles | undefined {
  const video = program["video"] as { columns: number; qps: number[] } | null | undefined;
  const shown = program["shown"] as { tiles: number[] } | null | undefined;
  return video && shown ? { columns: video.columns, qps: video.qps, tiles: shown.tiles } : undefined;
}

/** Names a program: its process number may be used again. */
export const identity = (program: Program) => `${program.role} ${program.pid} ${program.started}`;

/** Asks for the state of all programs; rejects if the server of this page does not answer. */
export async function ask(): Promise<Program[]> {
  const answer = await fetch("programs", { cache: "no-store", signal: AbortSignal.timeout(5000) });
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return ((await answer.json()) as { programs: Program[] }).programs;
}
