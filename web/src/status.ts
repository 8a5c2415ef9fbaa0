// The programs' answers, as docs/guide/status.md describes them.

export interface Path {
  radio: string;
  state: string;
  cause: string | null;
  since_s: number;
  rtt_ms: number | null;
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

export interface Program {
  role: string;
  pid: number;
  started: number;
  uptime_s: number;
  listening: string[];
  sessions?: Session[];
  destinations?: { destination: string; connections: number }[];
  /** Everything else that a program says of itself. */
  [key: string]: unknown;
}

/** Names a program: its process number may be used again. */
export const identity = (program: Program) => `${program.role} ${program.pid} ${program.started}`;

/** Asks for the state of all programs; rejects if the server of this page does not answer. */
export async function ask(): Promise<Program[]> {
  const answer = await fetch("programs", { cache: "no-store", signal: AbortSignal.timeout(5000) });
  if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
  return ((await answer.json()) as { programs: Program[] }).programs;
}
