// A viewing of a DASH title: the transport, the engine's paths and decisions, the player's numbers. Its form: docs/guide/status.md.

import { duration } from "./words";

export interface EnginePath {
  path: string;
  rtt_ms: number | null;
  random_loss: number | null;
  used: boolean;
}

export interface Rung {
  index: number;
  of: number;
  kbps: number;
  width: number;
  height: number;
}

export interface StartUp {
  start_up_ms: number;
  transport: string;
  zero_rtt: boolean;
}

export type ViewingEvent = { t: number; wall: string; viewing: number } & (
  | { event: "begun" | "left" }
  | { event: "transport"; transport: string; zero_rtt?: boolean }
  | { event: "decision"; decision: string; reason: string; paths: Omit<EnginePath, "used">[]; buffer_s: number }
  | { event: "notice"; notice: string }
  | ({ event: "first_picture" } & StartUp)
  | ({ event: "quality" } & Rung)
  | { event: "stalled"; position_s: number }
  | { event: "resumed"; stalled_s: number }
);

/** What the player in the page says of itself. */
export interface PlayerReport {
  viewing: number;
  state: "starting" | "playing" | "stalled" | "paused" | "ended";
  position_s: number;
  duration_s: number;
  buffer_s: number;
  throughput_mbps: number | null;
  rung: Rung | null;
  stalls: number;
  stalled_s: number;
  start_up_ms: number | null;
}

export interface Viewing {
  transport: string | null;
  start_up?: StartUp | null;
  player?: PlayerReport | null;
  paths: EnginePath[];
  events: ViewingEvent[];
}

/** What a program shows of a viewing, if it has one. */
export function viewingOf(program: Record<string, unknown>): Viewing | undefined {
  return Array.isArray(program["transports"]) && Array.isArray(program["events"]) ? (program as unknown as Viewing) : undefined;
}

/** Names of the fields that {@link ViewingView} shows. */
export const VIEWING_FIELDS = ["transport", "transports", "start_up", "player", "paths", "events"];

const rungWords = (rung: Rung) => `${rung.index + 1} of ${rung.of}: ${rung.kbps.toFixed(0)} kbit/s, ${rung.width}×${rung.height}`;
const startUpWords = (of: StartUp) => `${(of.start_up_ms / 1000).toFixed(2)} s over ${of.transport}${of.zero_rtt ? ", with 0-RTT" : ""}`;
const pathWords = (path: Omit<EnginePath, "used">) =>
  `${path.path} ${path.rtt_ms === null ? "unreachable" : `${path.rtt_ms.toFixed(1)} ms`}${path.random_loss === null ? "" : `, ${(100 * path.random_loss).toFixed(1)} % lost`}`;

/** Reasons of the engine, whose names are in the events. */
const REASONS: Record<string, string> = {
  NoController: "no controller, or none of its paths is usable",
  UdpBlocked: "UDP does not get through",
  OnePath: "one path is usable",
  Balanced: "the round trips of the paths are alike",
  Rtt: "its round trip is too long",
  Retransmissions: "too much is sent again",
  Loss: "packets are lost",
  LossEnded: "packets are no longer lost",
  Unreachable: "it cannot be reached",
  Recovered: "it is usable again",
  BufferCritical: "one path is left, and the play buffer is nearly empty",
};

/** An event as text. */
export function eventWords(event: ViewingEvent): string {
  switch (event.event) {
    case "begun":
      return "a viewer begins";
    case "left":
      return "the viewer has left";
    case "transport":
      return `requests go over ${event.transport}${event.zero_rtt === true ? ", with 0-RTT" : ""}`;
    case "decision":
      return `decision: ${event.decision} (${REASONS[event.reason] ?? event.reason}), with ${event.buffer_s.toFixed(1)} s buffered; ${event.paths.map(pathWords).join("; ") || "no paths"}`;
    case "notice":
      return event.notice;
    case "first_picture":
      return `first picture after ${startUpWords(event)}`;
    case "quality":
      return `quality ${rungWords(event)}`;
    case "stalled":
      return `stalled at ${event.position_s.toFixed(1)} s`;
    case "resumed":
      return `goes on; ${event.stalled_s.toFixed(1)} s of stalls so far`;
    default:
      return "unknown event";
  }
}

/** Numbers of the player. */
function facts({ player, start_up }: Viewing): [string, string][] {
  const all: [string, string][] = [];
  if (start_up !== undefined) all.push(["from click to picture", start_up === null ? "–" : startUpWords(start_up)]);
  if (!player) return all;
  return [
    ...all,
    ["quality", player.rung === null ? "–" : rungWords(player.rung)],
    ["buffered", `${player.buffer_s.toFixed(1)} s`],
    ["position", `${duration(player.position_s)} of ${duration(player.duration_s)}`],
    ["stalls", `${player.stalls}, ${player.stalled_s.toFixed(1)} s`],
    ["throughput", player.throughput_mbps === null ? "–" : `${player.throughput_mbps.toFixed(1)} Mbit/s`],
  ];
}

export function ViewingView({ viewing }: { viewing: Viewing }) {
  return (
    <>
      <p class="total">
        <b class="transport">{viewing.transport ?? "–"}</b> <span>is the transport now</span>
      </p>
      <dl>
        {facts(viewing).map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      {viewing.paths.length > 0 && (
        <ul class="paths" aria-label="paths of the decision engine">
          {viewing.paths.map((path) => (
            <li key={path.path} data-path={path.path} data-used={String(path.used)} data-up={String(path.rtt_ms !== null)}>
              <b>{path.path}</b>{" "}
              <span class={`state ${path.used ? "up" : "down"}`}>
                <span aria-hidden="true">{path.used ? "●" : "○"}</span> {path.used ? "used" : "not used"}
              </span>{" "}
              <small>{pathWords(path).slice(path.path.length + 1)}</small>
            </li>
          ))}
        </ul>
      )}
      <ol class="past" tabIndex={0} aria-label="events of the viewing, the newest first">
        {[...viewing.events].reverse().map((event, index) => (
          <li key={viewing.events.length - index} data-event={event.event}>
            <time dateTime={event.wall}>{event.t.toFixed(1)} s</time> {eventWords(event)}
          </li>
        ))}
      </ol>
    </>
  );
}
