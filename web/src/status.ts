// The programs' answers, as docs/guide/status.md describes them.

import type { Tiles } from "./tiles";

export interface Path {
  radio: string;
  state: string;
  cause: string | null;
  since_s: number;
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
  connections: number;
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

/** A program's sessions. A player has one, of which it shows the radios. */
export function sessionsOf(program: Program): Session[] {
  const radios = program["radios"];
  if (program.sessions !== undefined || !Array.isArray(radios)) return program.sessions ?? [];
  const paths = radios as Path[];
  const sum = (of: (path: Path) => number) => paths.reduce((all, path) => all + of(path), 0);
  const bytes = { sent: sum((path) => path.sent), received: sum((path) => path.received) };
  return [{ session: null, peer: null, connections: 1, memory: 0, age_s: program.uptime_s, ...bytes, sent_again: 0, paths }];
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
