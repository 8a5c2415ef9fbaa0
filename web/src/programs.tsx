// One program: its radios, clients, destinations, and whatever else it says of itself.

import { Chart } from "./chart";
import type { Curve } from "./history";
import type { Path, Program, Session } from "./status";
import { bytes, duration, mbps } from "./words";

/** Sessions that are listed; a server may have a thousand. */
const LISTED = 20;
const PROXY = new Set(["role", "pid", "started", "uptime_s", "listening", "sessions", "destinations", "memory"]);
const SIGNS: Record<string, string> = { up: "●", silent: "◐", down: "○", removed: "×" };

function State({ path }: { path: Path }) {
  return (
    <>
      <span class={`state ${SIGNS[path.state] ? path.state : "down"}`}>
        <span aria-hidden="true">{SIGNS[path.state] ?? "○"}</span> {path.state}
      </span>{" "}
      <small>
        for {duration(path.since_s)}
        {path.cause ? `: ${path.cause}` : ""}
      </small>
    </>
  );
}

function Paths({ session, title }: { session: Session; title: string }) {
  const most = Math.max(0.1, ...session.paths.map((path) => Math.max(path.send_mbps, path.receive_mbps)));
  const rate = (value: number) => (
    <td class="num rate">
      <meter aria-hidden="true" min={0} max={most} value={value} /> {mbps(value)}
    </td>
  );
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={title}>
      <table>
        <thead>
          <tr>
            <th scope="col">radio</th>
            <th scope="col">state</th>
            <th scope="col" class="num">RTT, ms</th>
            <th scope="col" class="num">sending, Mbit/s</th>
            <th scope="col" class="num">receiving, Mbit/s</th>
            <th scope="col" class="num">sent</th>
            <th scope="col" class="num">received</th>
          </tr>
        </thead>
        <tbody>
          {session.paths.map((path) => (
            <tr key={path.radio} data-radio={path.radio} data-state={path.state}>
              <th scope="row">{path.radio}</th>
              <td>
                <State path={path} />
              </td>
              <td class="num">{path.rtt_ms === null ? "–" : path.rtt_ms.toFixed(1)}</td>
              {rate(path.send_mbps)}
              {rate(path.receive_mbps)}
              <td class="num">{bytes(path.sent)}</td>
              <td class="num">{bytes(path.received)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function SessionView({ session }: { session: Session }) {
  const name = session.peer ?? session.session ?? "no session yet";
  const carried = session.sent + session.received;
  const again = session.sent > 0 ? (100 * session.sent_again) / session.sent : 0;
  return (
    <section class="session" aria-label={`session ${name}`}>
      <p class="facts">
        {session.peer ? `client ${session.peer}` : "session"} · {session.connections} open {session.connections === 1 ? "connection" : "connections"} · {bytes(carried)} in{" "}
        {duration(session.age_s)} · {again.toFixed(1)} % sent again
      </p>
      <Paths session={session} title={`radios of ${name}`} />
    </section>
  );
}

function Value({ value }: { value: unknown }) {
  if (typeof value === "number") return <>{Number.isInteger(value) ? value : value.toPrecision(4)}</>;
  if (value !== null && typeof value === "object") return <code>{JSON.stringify(value)}</code>;
  return <>{String(value)}</>;
}

export function ProgramView({ program, curve, at }: { program: Program; curve: Curve | undefined; at: number }) {
  const rate = (session: Session) =>
    session.paths.reduce((sum, path) => sum + path.send_mbps + path.receive_mbps, 0);
  const sessions = [...(program.sessions ?? [])].sort((a, b) => rate(b) - rate(a));
  const others = Object.entries(program).filter(([key]) => !PROXY.has(key));
  const total = sessions.reduce((sum, session) => sum + rate(session), 0);
  return (
    <article class="panel" data-role={program.role} data-pid={program.pid}>
      <h2>
        {program.role} <small>process {program.pid}, for {duration(program.uptime_s)}</small>
      </h2>
      {program.listening.length > 0 && <p class="facts">listens on {program.listening.join(", ")}</p>}
      {program.sessions && (
        <p class="total">
          <b>{mbps(total)}</b> Mbit/s <span>{sessions.length} {sessions.length === 1 ? "session" : "sessions"}</span>
        </p>
      )}
      {curve && curve.rates.size > 0 && (
        <Chart curve={curve} at={at} label={`rate of each radio of ${program.role} over two minutes; the numbers are in the table`} />
      )}
      {sessions.slice(0, LISTED).map((session, index) => (
        <SessionView key={session.session ?? index} session={session} />
      ))}
      {sessions.length > LISTED && <p class="facts">and {sessions.length - LISTED} sessions with lower rates</p>}
      {program.destinations && program.destinations.length > 0 && (
        <p class="facts">
          connections to{" "}
          {program.destinations.map(({ destination, connections }) => `${destination} (${connections})`).join(", ")}
        </p>
      )}
      {others.length > 0 && (
        <dl>
          {others.map(([key, value]) => (
            <div key={key}>
              <dt>{key.replaceAll("_", " ")}</dt>
              <dd>
                <Value value={value} />
              </dd>
            </div>
          ))}
        </dl>
      )}
    </article>
  );
}
