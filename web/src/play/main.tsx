// The page of `tributary stream play --web`: the video around the viewer, and beside it what arrives on which radio.

import { render } from "preact";
import type { Path } from "../status";
import { TileMap } from "../tiles";
import { bytes, duration, mbps } from "../words";
import { turnWithDevice } from "./device";
import { LIVE, type News, type Tile, type Video, fallBack, follow } from "./feed";
import { Headset } from "./headset";
import { Look, type Orientation } from "./look";
import { Player } from "./player";
import { SOUND, Sound } from "./sound";
import { Sphere } from "./sphere";
import "../page.css";
import "./play.css";

const EVENTS = 30;
/** Time between two updates of the numbers. */
const NUMBERS_MS = 250;
/** The program says something each second while it plays. */
const SILENCE_MS = 4000;

const STATES = {
  waiting: "waiting for this page",
  connecting: "connecting to the server",
  playing: "playing",
  lost: "no connection to the server",
  ended: "the viewing has ended",
};

const LOW = "tiles cannot be decoded here: low resolution";
/** What is said when the server sends no more of a live video. */
const PAUSED = "the live source sends nothing: its last picture stays until it goes on";
/** A live source may be late by so much without a word. */
const PAUSE_MS = 2000;
/** What to do about tiles that cannot be decoded. */
const WAYS_OUT = "open the page in another browser or on a faster machine";

const SPEAKER = { none: "", waiting: "Sound: click or press a key", playing: "Mute", muted: "Unmute" };

const events: { at: Date; words: string }[] = [];
let state: keyof typeof STATES = "waiting";
let cause: string | undefined;
let gone: string | undefined;
let radios: Path[] = [];
let late = 0;
let heard = 0;
/** When the last slot began. */
let began = Infinity;
/** What is wrong with decoding. */
let undecodable: string | undefined;

function say(words: string) {
  const last = events[0];
  if (last?.words === words && Date.now() - last.at.getTime() < 1000) return;
  events.unshift({ at: new Date(), words });
  events.splice(EVENTS);
}

/** Most tiles were not decoded for a while. */
async function overwhelmed(video: Video | undefined) {
  if (undecodable !== undefined) return;
  if (video?.low === true) undecodable = `not even the low-resolution stream can be decoded here; ${WAYS_OUT}`;
  else if (video?.has_low !== true) {
    const way = video?.gops === LIVE ? "serve it without --no-low-resolution, in 64 pixels across at least" : "make it again with tributary ingest";
    undecodable = `tiles cannot be decoded here, and this video has no low-resolution stream: ${way}, or ${WAYS_OUT}`;
  } else {
    await fallBack().catch((error) => (undecodable = `tiles cannot be decoded here, and there is no low resolution: ${error.message}`));
  }
  if (undecodable !== undefined) say(undecodable);
}

const isSilent = () => gone === undefined && state === "playing" && performance.now() - heard > SILENCE_MS;

function Radios() {
  const most = Math.max(0.1, ...radios.map((radio) => radio.receive_mbps));
  return (
    <ul class="radios" aria-label="radios">
      {radios.map((radio) => (
        <li key={radio.radio} data-radio={radio.radio} data-state={radio.state}>
          <b>{radio.radio}</b>{" "}
          <span class={`state ${radio.state}`}>
            {radio.state} for {duration(radio.since_s ?? 0)}
          </span>
          {radio.cause && <small> {radio.cause}</small>}
          <br />
          <meter aria-hidden="true" min={0} max={most} value={radio.receive_mbps} /> {mbps(radio.receive_mbps)} Mbit/s,{" "}
          {radio.rtt_ms === null ? "–" : radio.rtt_ms.toFixed(1)} ms, {bytes(radio.received)}
        </li>
      ))}
    </ul>
  );
}

const seconds = (ms: number | undefined) => (ms === undefined ? "–" : `${(ms / 1000).toFixed(2)} s`);

function Panel({ player, sound, look, drawn }: { player: Player; sound: Sound; look: Orientation; drawn: string }) {
  const { counters } = player.decoders;
  const { slot, video } = player;
  const facts: [string, string | number][] = [
    ["looking at", `${Math.round(look.yaw)}° right, ${Math.round(look.pitch)}° up`],
    ["first picture after", seconds(player.firstPictureMs)],
    ["moving after", seconds(player.playsMs)],
    ["pictures shown", player.pictures],
    ["drawn in pixels", drawn],
    ["tiles after their time", late],
    ["pictures decoded too late", counters.tooLate],
    ["tiles that did not decode", counters.corrupt],
    ["decoders that stopped", counters.watchdog],
    ["tiles without a decoder", counters.overflow],
    ["GoPs without sound", sound.state === "none" ? "–" : sound.gaps],
    ["sound decoded too late, in tenths of a second", sound.late],
  ];
  return (
    <>
      <section aria-label="tiles">
        <h2>
          Tiles <small>{slot === undefined ? "" : `slot ${slot.slot}, ${bytes(slot.bytes)}`}</small>
        </h2>
        {slot && video && <TileMap columns={video.columns} tiles={slot.tiles} qps={video.qps} middle={player.inView(look)} />}
      </section>
      <section aria-label="radios">
        <h2>Radios</h2>
        <Radios />
      </section>
      <dl>
        {facts.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      <section class="events" aria-label="events">
        <h2>Events</h2>
        <ol aria-live="polite" tabIndex={0}>
          {events.map((event) => (
            <li key={`${event.at.getTime()} ${event.words}`}>
              <time>{event.at.toLocaleTimeString()}</time> {event.words}
            </li>
          ))}
        </ol>
      </section>
    </>
  );
}

function headline(): string {
  const silent_s = Math.floor((performance.now() - heard) / 1000);
  if (isSilent()) return `nothing was heard from tributary stream play for ${silent_s} s`;
  if (gone !== undefined) return `tributary stream play does not answer (${gone}); trying again`;
  return cause === undefined ? STATES[state] : `${STATES[state]}: ${cause}; trying again`;
}

/** Builds the page once; the numbers are drawn again, the canvas is not. */
function frame(page: HTMLElement) {
  page.innerHTML = `
    <header><h1>Tributary <small>360° video</small></h1><p class="link" role="status"></p></header>
    <div class="stage">
      <canvas tabindex="0" role="img" aria-label="the video; turn with the arrow keys, Shift for larger steps, Home looks straight ahead"></canvas>
      <p class="over" hidden></p>
      <p class="low" role="status" hidden></p>
      <p class="hint">Drag, or press the arrow keys. Home looks straight ahead.
        <button type="button" name="full">Full screen</button>
        <button type="button" name="device" hidden>Turn with the device</button>
        <button type="button" name="headset" hidden>Enter VR</button>
        <button type="button" name="sound" hidden></button></p>
    </div>
    <aside class="panel" aria-label="what arrives"></aside>`;
  const find = <T extends HTMLElement>(selector: string) => page.querySelector<T>(selector)!;
  return {
    canvas: find<HTMLCanvasElement>("canvas"),
    link: find(".link"),
    over: find(".over"),
    low: find(".low"),
    panel: find(".panel"),
    stage: find(".stage"),
    button: (name: string) => find<HTMLButtonElement>(`button[name=${name}]`),
    speaker: find<HTMLButtonElement>("button[name=sound]"),
  };
}

/** What the browser lacks, if anything. */
function lacks(): string | undefined {
  if (!("VideoDecoder" in window)) {
    return "This browser has no WebCodecs. Take Chromium 94, Safari 16.4, Firefox 130 or a later one, and open the page as http://127.0.0.1 or localhost.";
  }
  return undefined;
}

function start(page: HTMLElement) {
  const { canvas, link, over, low, panel, stage, button, speaker } = frame(page);
  const stop = (words: string) => {
    over.hidden = false;
    over.textContent = words;
    over.classList.add("final");
    link.textContent = "cannot play";
    link.className = "link lost";
    page.dataset["state"] = "cannot";
  };
  let sphere: Sphere;
  const lack = lacks();
  if (lack !== undefined) return stop(lack);
  try {
    sphere = new Sphere(canvas);
  } catch {
    return stop("This browser has no WebGL 2, which draws the sphere. Switch it on in the browser's settings, or take another browser.");
  }
  const player = new Player(sphere, (tile, words) => say(`tile ${tile} ${words}`), () => void overwhelmed(player.video));
  const look = new Look(canvas);
  const headset = new Headset(sphere, look, button("headset"), say);
  turnWithDevice(look, button("device"), say, () => headset.worn);
  const sound = new Sound(say);
  // Browsers play no sound before the viewer's first click or key.
  const allow = (event: Event) => {
    if (event.target !== speaker) sound.allow();
  };
  for (const gesture of ["pointerdown", "keydown"]) window.addEventListener(gesture, allow);
  speaker.addEventListener("click", () => (sound.state === "waiting" ? sound.allow() : sound.mute(!sound.muted)));
  let stopped = false;
  const take = (message: News | Tile) => {
    if (stopped) return;
    heard = performance.now();
    try {
      if (message.news === "video") {
        began = Infinity;
        sound.begin(message);
        if (message.low && !(player.video?.low ?? false)) say(LOW);
      }
      if (message.news === "tile" && message.tile === SOUND) sound.take(message);
      else player.take(message, performance.now());
      if (message.news === "slot") sound.slot(message.slot, message.sound, player.shownIn(message.slot, performance.now()));
    } catch (error) {
      stopped = true;
      stop(error instanceof Error ? error.message : String(error));
    }
    if (message.news === "radios") {
      for (const radio of message.radios) {
        const before = radios.find((other) => other.radio === radio.radio);
        if (before !== undefined && (before.state !== radio.state || before.cause !== radio.cause)) {
          say(`${radio.radio} is ${radio.state}${radio.cause ? `: ${radio.cause}` : ""}`);
        }
      }
      radios = message.radios;
    } else if (message.news === "state") {
      if (message.state !== state || (message.cause ?? undefined) !== cause) {
        say(message.cause === null ? STATES[message.state] : `${STATES[message.state]}: ${message.cause}`);
      }
      state = message.state;
      cause = message.cause ?? undefined;
    } else if (message.news === "slot") {
      began = performance.now();
      late += message.late_before;
    } else if (message.news === "skipped") {
      say(`this page was too slow and lost ${message.messages} messages`);
    }
  };
  void follow(take, (words) => {
    if (words !== gone && words !== undefined) say(`tributary stream play does not answer (${words})`);
    gone = words;
  });
  button("full").addEventListener("click", () => void stage.requestFullscreen?.().catch(() => say("no full screen here")));
  let numbers = 0;
  sphere.loop((now, xr) => {
    if (stopped) return void sphere.end();
    if (xr !== undefined) headset.at(xr);
    const orientation = look.at(now);
    player.turn(now, orientation);
    sphere.draw(orientation);
    if (now - numbers > NUMBERS_MS) {
      numbers = now;
      const good = gone === undefined && state === "playing" && !isSilent();
      link.textContent = headline();
      link.className = good ? "link live" : "link lost";
      over.hidden = good;
      over.textContent = headline();
      const paused = good && player.video?.gops === LIVE && now - began > PAUSE_MS + 1000 * player.video.gop_s;
      const trouble = paused ? PAUSED : (undecodable ?? (player.video?.low === true ? LOW : ""));
      low.hidden = trouble === "";
      if (low.textContent !== trouble) low.textContent = trouble;
      const slot = player.slot;
      const data: Record<string, unknown> = {
        state: gone !== undefined ? "gone" : isSilent() ? "silent" : state,
        viewing: player.video?.viewing ?? "",
        low: player.video?.low ?? "",
        paused,
        slot: slot?.slot ?? "",
        pictures: player.pictures,
        drawn: sphere.drawn,
        firstPictureMs: Math.round(player.firstPictureMs ?? 0),
        playsMs: Math.round(player.playsMs ?? 0),
        middleQuality: slot?.tiles[player.inView(orientation)] ?? "",
        yaw: orientation.yaw,
        decoded: player.decoders.counters.decoded,
        corrupt: player.decoders.counters.corrupt,
        sound: sound.state,
        soundSlots: sound.slots,
        soundGaps: sound.gaps,
        soundLate: sound.late,
      };
      for (const [key, value] of Object.entries(data)) page.dataset[key] = String(value);
      speaker.hidden = sound.state === "none";
      speaker.textContent = SPEAKER[sound.state];
      render(<Panel player={player} sound={sound} look={orientation} drawn={sphere.drawn} />, panel);
    }
  });
}

// In a frame of the stand there is only the video; the stand's page has the numbers.
document.body.classList.toggle("framed", window.parent !== window);
const page = document.getElementById("page");
if (page !== null) start(page);
