// A saved run: what `--json-events FILE` or `--qlog FILE` recorded (docs/guide/status.md). Lines that are not events are counted,
// not trusted.

/** Time in which a radio of a session is in one state. */
export interface Span {
  /** Seconds since the log began. */
  from: number;
  to: number;
  state: string;
  cause: string | undefined;
}

export interface Lane {
  session: string;
  radio: string;
  spans: Span[];
  /** Retransmitted segments and round-trip time, where the log has them (qlog): seconds, milliseconds. */
  rtt: { at: number; ms: number }[];
}

export interface Event {
  at: number;
  session: string;
  radio: string | undefined;
  words: string;
  state: string | undefined;
}

export interface Run {
  lanes: Lane[];
  events: Event[];
  seconds: number;
  /** When the log began, if it says so. */
  began: Date | undefined;
  /** Lines that are not events. */
  unknown: number;
}

/** Events that are kept: those of the scheduler are thousands a second, and are only counted. */
export const MOST_EVENTS = 20_000;
const MOST_LANES = 64;
const DECISIONS = new Set(["window_loaded", "reinjected", "prioritised"]);

type Fields = Record<string, unknown>;

const text = (value: unknown) => (value === undefined || value === null ? undefined : String(value));
const number = (value: unknown) => (typeof value === "number" && Number.isFinite(value) ? value : undefined);

function words(name: string, fields: Fields): string {
  const cause = text(fields["cause"]);
  switch (name) {
    case "path":
      return `${text(fields["state"]) ?? "unknown"}${cause === undefined ? "" : `: ${cause}`}`;
    case "subflow_down":
      return `connection ${text(fields["subflow"])} down; ${text(fields["orphans"]) ?? 0} segments move to others`;
    case "closed":
      return `session closed ${fields["by_peer"] === true ? "by the peer" : "here"}: ${text(fields["reason"]) || `code ${text(fields["code"])}`}`;
    case "events_lost":
      return `${text(fields["count"])} events were lost`;
    default: {
      const others = Object.entries(fields).filter(([key]) => key !== "path");
      return `${name.replaceAll("_", " ")} ${others.map(([key, value]) => `${key} ${text(value)}`).join(", ")}`.trim();
    }
  }
}

/** One line of either form: the event's name, time, session, and its own fields. */
function read(line: string): { at: number; name: string; session: string; path: string | undefined; fields: Fields } | undefined {
  let object: Fields;
  try {
    object = JSON.parse(line) as Fields;
  } catch {
    return undefined;
  }
  if (object === null || typeof object !== "object") return undefined;
  const data = object["data"];
  if (typeof object["name"] === "string" && data !== null && typeof data === "object") {
    const at = number(object["time"]);
    const [session, path] = String(object["group_id"] ?? "").split("/");
    if (at === undefined) return undefined;
    return { at: at / 1000, name: object["name"].replace(/^tributary:/, ""), session: session ?? "", path, fields: data as Fields };
  }
  const { event, t, wall, session, session_t, ...fields } = object;
  const at = number(t);
  if (typeof event !== "string" || at === undefined) return undefined;
  void wall;
  void session_t;
  return { at, name: event, session: text(session) ?? "", path: text(fields["path"]), fields };
}

/** Reads a log. Fails if there is no event in it. */
export function parse(log: string): Run {
  const lanes = new Map<string, Lane>();
  const run: Run = { lanes: [], events: [], seconds: 0, began: undefined, unknown: 0 };
  const names = new Map<string, string>();
  for (const line of log.split(/[\n\u001e]+/)) {
    if (line.trim() === "") continue;
    const found = read(line);
    if (found === undefined) {
      run.unknown += 1;
      continue;
    }
    const { at, name, session, path, fields } = found;
    run.seconds = Math.max(run.seconds, at);
    const wall = text((/"wall":"([^"]+)"/.exec(line) ?? [])[1]);
    if (run.began === undefined && wall !== undefined) run.began = new Date(Date.parse(wall) - at * 1000);
    if (DECISIONS.has(name)) continue;
    const key = `${session} ${path}`;
    const radio = text(fields["radio"]) ?? names.get(key) ?? (path === undefined ? undefined : `path ${path}`);
    if (radio !== undefined && path !== undefined) names.set(key, radio);
    const lane = path === undefined ? undefined : laneOf(lanes, session, radio ?? path);
    if (name === "recovery:metrics_updated") {
      const ms = number(fields["smoothed_rtt"]);
      if (lane !== undefined && ms !== undefined) {
        lane.rtt.push({ at, ms });
        // A long run is shown more coarsely.
        if (lane.rtt.length > MOST_EVENTS) lane.rtt = lane.rtt.filter((_, index) => index % 2 === 1);
      }
      continue;
    }
    const { radio: _, ...rest } = fields;
    const state = name === "path" ? text(fields["state"]) : name === "path_removed" ? "removed" : undefined;
    if (run.events.length < MOST_EVENTS) run.events.push({ at, session, radio, words: words(name, rest), state });
    if (lane !== undefined && state !== undefined) enter(lane, at, state, text(fields["cause"]));
    if (name === "closed") {
      for (const other of lanes.values()) if (other.session === session) enter(other, at, "closed", text(fields["reason"]));
    }
  }
  if (run.events.length === 0) throw new Error("it has no event; save one with --json-events FILE or --qlog FILE");
  run.lanes = [...lanes.values()];
  for (const lane of run.lanes) lane.spans.at(-1)!.to = run.seconds;
  run.lanes = run.lanes.filter((lane) => lane.spans.some((span) => span.state !== "connecting") || lane.rtt.length > 0);
  return run;
}

function laneOf(lanes: Map<string, Lane>, session: string, radio: string): Lane | undefined {
  const key = `${session}\n${radio}`;
  const known = lanes.get(key);
  if (known !== undefined || lanes.size >= MOST_LANES) return known;
  const lane: Lane = { session, radio, spans: [{ from: 0, to: 0, state: "connecting", cause: undefined }], rtt: [] };
  lanes.set(key, lane);
  return lane;
}

function enter(lane: Lane, at: number, state: string, cause: string | undefined) {
  const last = lane.spans.at(-1)!;
  if (last.state === state && last.cause === cause) return;
  last.to = at;
  if (lane.spans.length >= MOST_EVENTS) return;
  lane.spans.push({ from: at, to: at, state, cause });
}

/** The state of a lane at a time. */
export const at = (lane: Lane, seconds: number): Span => lane.spans.filter((span) => span.from <= seconds).at(-1) ?? lane.spans[0]!;

const ELEMENT = "saved-run";

/** The log inside this page, if it was saved with one. */
export const enclosed = (): string | undefined => {
  const element = document.getElementById(ELEMENT);
  return element === null ? undefined : (JSON.parse(element.textContent ?? '""') as string);
};

/** This page with a log in it, as one file. A block of data is no script for the page's policy. */
export async function enclose(log: string): Promise<Blob> {
  const answer = await fetch("./", { cache: "no-store" });
  if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
  const page = await answer.text();
  const data = JSON.stringify(log).replaceAll("<", "\\u003c");
  const block = `<script type="application/json" id="${ELEMENT}">${data}</script>`;
  // The first one: this text is in the script, too.
  const end = page.indexOf('<script type="module">');
  if (end < 0) throw new Error("this page has another form than expected");
  return new Blob([page.slice(0, end), block, page.slice(end)], { type: "text/html" });
}
