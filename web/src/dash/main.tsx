// The page of `tributary dash play --web`: dash.js plays the title, and beside it stands over what its requests go, and why.

import { render } from "preact";
import { useRef, useState } from "preact/hooks";
import { usePolling } from "../polling";
import { ViewingView } from "../viewing";
import { bytes, duration, mbps } from "../words";
import { Playback } from "./playback";
import { type Status, Superseded, leave, now, report } from "./program";
import "../page.css";
import "./dash.css";

const EVERY_MS = 500;

/** What the test reads. */
const data = ({ state, transport, start_up, player, viewing, requests, continued, failed, bytes }: Status) => ({
  "data-state": state,
  "data-viewing": viewing,
  "data-transport": transport ?? "",
  "data-start-up-ms": start_up?.start_up_ms ?? "",
  "data-zero-rtt": start_up?.zero_rtt ?? "",
  "data-position-s": player?.position_s ?? "",
  "data-buffer-s": player?.buffer_s ?? "",
  "data-kbps": player?.rung?.kbps ?? "",
  "data-stalls": player?.stalls ?? "",
  "data-requests": requests,
  "data-continued": continued,
  "data-failed": failed,
  "data-bytes": bytes,
});

function Radios({ radios }: { radios: NonNullable<Status["radios"]> }) {
  return (
    <ul class="radios" aria-label="connections and radios">
      {radios.map((radio) => (
        <li key={radio.radio} data-radio={radio.radio} data-state={radio.state}>
          <b>{radio.radio}</b>{" "}
          <span class={`state ${radio.state}`}>
            {radio.state}
            {(radio.since_s ?? 0) > 0 && ` for ${duration(radio.since_s ?? 0)}`}
          </span>
          {radio.cause && <small> {radio.cause}</small>}
          <br />
          {mbps(radio.receive_mbps)} Mbit/s, {radio.rtt_ms === null ? "–" : radio.rtt_ms.toFixed(1)} ms, {bytes(radio.received)}
        </li>
      ))}
    </ul>
  );
}

function Page() {
  const video = useRef<HTMLVideoElement>(null);
  const playback = useRef<Playback>(undefined);
  const starting = useRef(false);
  const [status, setStatus] = useState<Status>();
  const [problem, setProblem] = useState<string>();
  const stop = () => {
    playback.current?.end();
    playback.current = undefined;
  };
  const ask = async () => {
    const of = playback.current;
    if (of === undefined) return now();
    try {
      return await report(of.report());
    } catch (error) {
      if (!(error instanceof Superseded)) throw error;
      if (playback.current === of) stop();
      setProblem(error.message);
      return now();
    }
  };
  const { lost, again } = usePolling(ask, setStatus, EVERY_MS);
  const play = async () => {
    const clicked = performance.now();
    if (starting.current || video.current === null || status === undefined) return;
    starting.current = true;
    stop();
    setProblem(undefined);
    try {
      playback.current = await Playback.start(video.current, status.title, clicked);
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
    }
    starting.current = false;
  };
  const end = () => {
    if (playback.current === undefined) return;
    leave(playback.current.viewing);
    stop();
    void again();
  };
  // A page that is closed says so, and so does one that is put aside.
  window.onpagehide = end;
  const trouble = problem ?? playback.current?.error ?? status?.cause ?? undefined;
  return (
    <div class="page" {...(status && data(status))} data-gone={String(lost !== undefined)}>
      <header>
        <h1>
          Tributary <small>{status?.title}</small>
        </h1>
        <p class={lost === undefined ? "link live" : "link lost"} role="status">
          {lost === undefined ? (status?.state ?? "…") : `tributary dash play does not answer (${lost}); trying again`}
        </p>
      </header>
      <section class="stage" aria-label="video">
        <video ref={video} controls playsInline aria-label="the title" />
        <p class="controls">
          <button type="button" class="play" onClick={() => void play()} disabled={status === undefined}>
            {status?.viewing ? "Play from the beginning" : "Play"}
          </button>
          <button type="button" class="stop" onClick={end}>
            Stop and disconnect
          </button>
        </p>
        {trouble !== undefined && (
          <p class="lost" role="alert">
            {trouble}
          </p>
        )}
        <p class="facts">
          The player is <a href="licence">dash.js</a>. Its requests go to this program only, which makes them over the transport beside.
        </p>
      </section>
      {status && (
        <section class="panel" aria-label="transport and playback">
          <ViewingView viewing={status} />
          <h2>
            Connections <small>of the transport now</small>
          </h2>
          <Radios radios={status.radios ?? []} />
          <p class="facts">
            {status.requests} requests, {bytes(status.bytes)}; {status.continued} downloads continued over another connection, {status.failed} failed
          </p>
        </section>
      )}
    </div>
  );
}

const page = document.getElementById("page");
if (page !== null) {
  page.replaceChildren();
  render(<Page />, page);
}
