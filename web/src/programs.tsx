// One program: its radios, clients, destinations, and whatever else it says of itself.

import { Chart, Trace, colour } from "./chart";
import type { Past } from "./history";
import { type Client, type Path, type Program, type Session, sessionsOf, tilesOf } from "./status";
import { TileMap } from "./tiles";
import { VIEWING_FIELDS, ViewingView, viewingOf } from "./viewing";
import { bytes, duration, mbps, qualityWords } from "./words";

/** Sessions that are listed; a server may have a thousand. */
const LISTED = 20;
const PROXY = new Set(["role", "pid", "started", "uptime_s", "listening", "sessions", "destinations", "memory", "radios", "video", "shown", "quality", "clients"]);
type Quality = NonNullable<Parameters<typeof qualityWords>[0]>;
const VIEWING = new Set(VIEWING_FIELDS);
const SIGNS: Record<string, string> = { up: "●", silent: "◐", down: "○", removed: "×" };

function State({ path }: { path: Path }) {
  return (
    <>
      <span class={`state ${SIGNS[path.state] ? path.state : "down"}`}>
        <span aria-hidden="true">{SIGNS[path.state] ?? "○"}</span> {path.state}
      </span>{" "}
      <small>{[path.since_s === null ? "" : `for ${duration(path.since_s)}`, path.cause ?? ""].filter((words) => words !== "").join(": ")}</small>
    </>
  );
}

function Paths({ session, title, curve }: { session: Session; title: string; curve: Past | undefined }) {
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
            <th scope="col" class="num">lost, %</th>
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
              <td class="num">
                <Trace samples={curve?.rtts.get(path.radio)} least={1} /> {path.rtt_ms === null ? "–" : path.rtt_ms.toFixed(1)}
              </td>
              <td class="num" data-loss={path.loss ?? ""}>
                <Trace samples={curve?.losses.get(path.radio)} least={0.01} /> {path.loss == null ? "–" : (100 * path.loss).toFixed(1)}
              </td>
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

/** Where the data goes now: each radio's part of what is sent or received in this second. */
function Shares({ session, way, rate, order }: { session: Session; way: string; rate: (path: Path) => number; order: string[] }) {
  const total = session.paths.reduce((sum, path) => sum + rate(path), 0);
  if (total < 0.01) return null;
  const parts = session.paths.map((path, index) => {
    // The colour of the radio's curve.
    const at = order.indexOf(path.radio);
    return { path, at: at < 0 ? index : at, share: (100 * rate(path)) / total };
  });
  return (
    <div class="shares">
      <span class="facts">{way} now</span>
      <div class="parts" aria-hidden="true">
        {parts.map(({ path, at, share }) => (
          <i key={path.radio} style={{ width: `${share}%`, background: colour(at) }} />
        ))}
      </div>
      <ul>
        {parts.map(({ path, at, share }) => (
          <li key={path.radio} data-radio={path.radio} data-share={share.toFixed(0)}>
            <i aria-hidden="true" style={{ background: colour(at) }} /> {path.radio} {share.toFixed(0)} %
          </li>
        ))}
      </ul>
    </div>
  );
}

function SessionView({ session, order, curve }: { session: Session; order: string[]; curve: Past | undefined }) {
  const name = session.peer ?? session.session ?? (session.connections === null ? "hops" : "no session yet");
  const carried = session.sent + session.received;
  const again = session.sent > 0 ? (100 * session.sent_again) / session.sent : 0;
  return (
    <section class="session" aria-label={`session ${name}`}>
      <p class="facts">
        {session.connections !== null && `${session.peer ? `client ${session.peer}` : "session"} · ${session.connections} open ${session.connections === 1 ? "connection" : "connections"} · `}
        {bytes(carried)} in {duration(session.age_s)}
        {session.connections !== null && ` · ${again.toFixed(1)} % sent again`}
      </p>
      <Shares session={session} way="sends" rate={(path) => path.send_mbps} order={order} />
      <Shares session={session} way="receives" rate={(path) => path.receive_mbps} order={order} />
      <Paths session={session} title={`radios of ${name}`} curve={curve} />
    </section>
  );
}

/** What each client has sent and received. */
function Clients({ clients }: { clients: Client[] }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="clients">
      <table>
        <thead>
          <tr>
            <th scope="col">client</th>
            <th scope="col">sessions</th>
            <th scope="col" class="num">sent</th>
            <th scope="col" class="num">received</th>
          </tr>
        </thead>
        <tbody>
          {clients.slice(0, LISTED).map(({ client, sessions, sent, received }) => (
            <tr key={client}>
              <th scope="row">{client === "" ? "all with the shared key" : client}</th>
              <td>{sessions}</td>
              <td class="num">{bytes(sent)}</td>
              <td class="num">{bytes(received)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {clients.length > LISTED && <p class="facts">and {clients.length - LISTED} others</p>}
    </div>
  );
}

function Value({ value }: { value: unknown }) {
  if (typeof value === "number") return <>{Number.isInteger(value) ? value : value.toPrecision(4)}</>;
  if (Array.isArray(value)) {
    return (
      <>
        {value.map((one, at) => (
          <div key={at}>
            <Value value={one} />
          </div>
        ))}
      </>
    );
  }
  // Of counters, those that have counted something.
  if (value !== null && typeof value === "object") {
    const said = Object.entries(value).filter(([, one]) => one !== null && one !== 0 && one !== false && one !== "");
    const words = ([key, one]: [string, unknown]) => `${key.replaceAll("_", " ")} ${typeof one === "number" && !Number.isInteger(one) ? one.toPrecision(4) : typeof one === "object" ? JSON.stringify(one) : String(one)}`;
    return <>{said.length === 0 ? "–" : said.map(words).join(", ")}</>;
  }
  return <>{String(value)}</>;
}

export function ProgramView({ program, curve, at }: { program: Program; curve: Past | undefined; at: number }) {
  const rate = (session: Session) =>
    session.paths.reduce((sum, path) => sum + path.send_mbps + path.receive_mbps, 0);
  const sessions = [...sessionsOf(program)].sort((a, b) => rate(b) - rate(a));
  const viewing = viewingOf(program);
  const others = Object.entries(program).filter(
    ([key, value]) => !PROXY.has(key) && !(viewing !== undefined && VIEWING.has(key)) && !(key === "draining" && value === false),
  );
  const tiles = tilesOf(program);
  const total = sessions.reduce((sum, session) => sum + rate(session), 0);
  return (
    <article class="panel" data-role={program.role} data-pid={program.pid}>
      <h2>
        {program.role} <small>process {program.pid}, for {duration(program.uptime_s)}</small>
      </h2>
      {program.listening.length > 0 && <p class="facts">listens on {program.listening.join(", ")}</p>}
      {sessions.length > 0 && (
        <p class="total">
          <b>{mbps(total)}</b> Mbit/s
          {sessions[0]?.connections !== null && (
            <span>
              {sessions.length} {sessions.length === 1 ? "session" : "sessions"}
            </span>
          )}
        </p>
      )}
      {curve && curve.rates.size > 0 && (
        <Chart curve={curve} at={at} label={`rate of each radio of ${program.role} over two minutes; the numbers are in the table`} />
      )}
      {tiles && <TileMap {...tiles} />}
      {program["quality"] != null && (
        <p class="facts">
          Viewport PSNR, of one picture in {(program["quality"] as Quality).every} GoPs: <b class="psnr">{qualityWords(program["quality"] as Quality)}</b>
        </p>
      )}
      {viewing && <ViewingView viewing={viewing} />}
      {sessions.slice(0, LISTED).map((session, index) => (
        <SessionView key={session.session ?? index} session={session} order={[...(curve?.rates.keys() ?? [])]} curve={curve} />
      ))}
      {sessions.length > LISTED && <p class="facts">and {sessions.length - LISTED} sessions with lower rates</p>}
      {program.clients && program.clients.length > 0 && <Clients clients={program.clients} />}
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
