// The page of `tributary-lab show`: the same video over two transports beside each other, and the radios, which the viewer blocks or
// drags to another rate. The videos are the players' own pages, in frames; their numbers are those of `tributary status`.

import { render } from "preact";
import { useMemo, useRef, useState } from "preact/hooks";
import { Chart } from "../chart";
import { usePolling } from "../polling";
import { bytes, mbps, qualityWords } from "../words";
import { type Change, Changes, type Now, type Radio, Rates, type Side, ask } from "./now";
import "../page.css";
import "./stand.css";

const EVERY_MS = 500;
const CHART_HEIGHT = 130;
/** Steps of a slider. */
const STEPS = 100;

const rates = new Rates();

/** Numbers of a side. The first ones are the longest tried. */
function facts(side: Side, middle: number | undefined): [string, string][] {
  const player = side.player;
  if (player === null) return [];
  const { quality, shown, so_far, video } = player;
  const tiles = shown?.tiles ?? [];
  const qp = middle === undefined ? undefined : video?.qps[middle];
  const arrives = (player.radios ?? []).reduce((sum, radio) => sum + radio.receive_mbps, 0);
  return [
    ["arrives now", `${mbps(arrives)} Mbit/s`],
    ["tiles in time, this GoP", `${tiles.filter((quality) => quality >= 0).length} of ${tiles.length}`],
    ["in the middle of the view", qp === undefined ? "nothing in time" : `QP ${qp}`],
    ["viewport PSNR, sampled", qualityWords(quality)],
    ["tiles not in time", String(so_far.tiles_not_in_time)],
    ["tiles left out", String(so_far.tiles_left_out)],
    ["media in time", bytes(so_far.bytes)],
  ];
}

/** Quality in the middle of the view, as the player's page shows it. */
function middleOf(frame: HTMLIFrameElement | null): number | undefined {
  const data = frame?.contentDocument?.querySelector("main")?.dataset;
  const quality = Number(data?.["middleQuality"] || -1);
  return quality >= 0 ? quality : undefined;
}

function SideView({ side, radios }: { side: Side; radios: Radio[] }) {
  const frame = useRef<HTMLIFrameElement>(null);
  const { player } = side;
  const sums = player?.so_far;
  const data = {
    "data-state": player?.state ?? "ended",
    "data-slot": player?.shown?.slot ?? "",
    "data-slots": sums?.slots ?? "",
    "data-slots-incomplete": sums?.slots_incomplete ?? "",
    "data-not-in-time": sums?.tiles_not_in_time ?? "",
    "data-left-out": sums?.tiles_left_out ?? "",
    "data-bytes": sums?.bytes ?? "",
    "data-psnr": player?.quality?.viewport_psnr_db ?? "",
    "data-psnr-slot": player?.quality?.slot ?? "",
  };
  return (
    <section class="side panel" data-side={side.name} aria-label={side.label} {...data}>
      <h2>{side.label}</h2>
      <iframe ref={frame} src={`${side.name}/`} title={`the video over ${side.label}`} />
      {sums === undefined ? (
        <p class="lost">Its player has ended.</p>
      ) : (
        <p class="total">
          <b>{sums.slots_incomplete}</b> of {sums.slots} GoPs with tiles that came too late
        </p>
      )}
      <dl>
        {facts(side, middleOf(frame.current)).map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      <ul class="radios" aria-label={`radios of ${side.label}`}>
        {(player?.radios ?? []).map((path) => (
          <li key={path.radio}>
            <b>{radios.find((radio) => path.radio.startsWith(`${radio.address}=`))?.name ?? path.radio}</b>{" "}
            <span class={`state ${path.state}`}>{path.state}</span> {mbps(path.receive_mbps)} Mbit/s{" "}
            {path.cause && <small>{path.cause}</small>}
          </li>
        ))}
      </ul>
      {side.inexact.length > 0 && <p class="facts">Its emulated network does not match the scenario: {side.inexact.join("; ")}.</p>}
    </section>
  );
}

function RadioView({ radio, blocked, rate, at, change }: { radio: Radio; blocked: boolean; rate: number; at: number; change: (to: Change) => void }) {
  const { asked } = radio;
  const curve = rates.curves.get(radio.name);
  return (
    <article class="radio" data-radio={radio.name} data-blocked={String(blocked)} data-rate={asked.rate_mbps ?? ""} aria-label={`radio ${radio.name}`}>
      <h3>
        {radio.name}{" "}
        <span class={`state ${blocked ? "down" : "up"}`}>{blocked ? "blocked" : `${mbps(rate)} Mbit/s`}</span>{" "}
        <small>{asked.rate_mbps === null ? "the scenario's rate" : "your rate"}</small>
      </h3>
      {curve && <Chart curve={curve} at={at} height={CHART_HEIGHT} label={`rate of ${radio.name}, and what each side carries on it, over the last two minutes`} />}
      <div class="controls">
        <button type="button" class="block" aria-pressed={asked.blocked} onClick={() => change({ ...asked, blocked: !asked.blocked })}>
          Block {radio.name}
        </button>
        <label class="rate">
          Rate of {radio.name}
          <input
            type="range"
            min={0}
            max={radio.most_mbps}
            step={radio.most_mbps / STEPS}
            value={asked.rate_mbps ?? rate}
            aria-valuetext={`${mbps(asked.rate_mbps ?? rate)} Mbit/s`}
            onInput={(event) => change({ ...asked, rate_mbps: Number(event.currentTarget.value) })}
          />
        </label>
        <button type="button" class="release" disabled={asked.rate_mbps === null} onClick={() => change({ ...asked, rate_mbps: null })}>
          The scenario's rate
        </button>
      </div>
    </article>
  );
}

function Page() {
  const [now, setNow] = useState<Now>();
  const [refused, setRefused] = useState<string>();
  const [, drawAgain] = useState(0);
  const take = (answer: Now) => {
    rates.add(answer);
    setNow(answer);
  };
  const { lost, at, again } = usePolling(ask, take, EVERY_MS);
  const changes = useMemo(
    () =>
      new Changes(async (error) => {
        setRefused(error);
        await again();
      }),
    [],
  );
  return (
    <>
      <header>
        <h1>
          Tributary <small>{now && `scenario ${now.scenario}: ${now.description}`}</small>
        </h1>
        <p class={lost === undefined ? "link live" : "link lost"} role="status">
          {lost === undefined ? "live" : `tributary-lab show does not answer (${lost}); trying again`}
        </p>
      </header>
      <p class="facts">
        Both videos are the same and come through the same radios; only the transport differs. Look around in one of them, and the other follows.
      </p>
      <div class="sides">{now?.sides.map((side) => <SideView key={side.name} side={side} radios={now.radios} />)}</div>
      <section class="panel" aria-label="radios">
        <h2>
          Radios <small>what you do to one happens to both videos</small>
        </h2>
        {refused !== undefined && <p role="alert">{refused}</p>}
        <div class="all">
          {now?.radios.map((radio) => {
            const link = now.sides[0]?.links.find((one) => one.path === radio.name && one.direction === "down");
            const asked = changes.waiting.get(radio.name) ?? radio.asked;
            return (
              <RadioView
                key={radio.name}
                radio={{ ...radio, asked }}
                blocked={link?.blocked ?? false}
                rate={link?.rate_mbps ?? 0}
                at={at}
                change={(to) => {
                  changes.ask(radio.name, { rate_mbps: to.rate_mbps, blocked: to.blocked });
                  drawAgain((count) => count + 1);
                }}
              />
            );
          })}
        </div>
      </section>
    </>
  );
}

const page = document.getElementById("page");
if (page !== null) {
  page.replaceChildren();
  render(<Page />, page);
}
