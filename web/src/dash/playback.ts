// dash.js plays the title in a video element; what it does is counted here.

import type { PlayerReport, Rung } from "../viewing";
import { type DashPlayer, begin, load, through } from "./program";

export class Playback {
  readonly viewing: number;
  /** Why the player has given up. */
  error: string | undefined;
  readonly #video: HTMLVideoElement;
  readonly #player: DashPlayer;
  readonly #listeners = new AbortController();
  #shown: { id: string } | undefined;
  #startUpMs: number | undefined;
  #stalls = 0;
  #stalledMs = 0;
  #stalledSince: number | undefined;

  private constructor(video: HTMLVideoElement, player: DashPlayer, viewing: number, clicked: number) {
    this.#video = video;
    this.#player = player;
    this.viewing = viewing;
    video.requestVideoFrameCallback(() => (this.#startUpMs = performance.now() - clicked));
    const signal = this.#listeners.signal;
    video.addEventListener("waiting", () => this.#waits(), { signal });
    for (const name of ["playing", "ended", "pause"]) video.addEventListener(name, () => this.#goesOn(), { signal });
    player.on("qualityChangeRendered", ({ mediaType, newRepresentation }) => {
      if (mediaType === "video" && newRepresentation !== undefined) this.#shown = newRepresentation;
    });
    player.on("error", ({ error }) => (this.error = error?.message ?? "dash.js reports an error"));
  }

  /** Plays from the beginning. `clicked`: when the viewer asked for it. */
  static async start(video: HTMLVideoElement, title: string, clicked: number): Promise<Playback> {
    // Both at once: the program connects meanwhile.
    const [dashjs, { viewing, manifest }] = await Promise.all([load(), begin()]);
    const player = dashjs.MediaPlayer().create();
    const playback = new Playback(video, player, viewing, clicked);
    const { host } = new URL(title);
    player.initialize(video, new URL(manifest, location.href).href, true);
    player.addRequestInterceptor(async (request) => {
      request.url = through(request.url, host);
      return request;
    });
    return playback;
  }

  /** Ends it; the video element can be used again. */
  end() {
    this.#listeners.abort();
    this.#player.destroy();
  }

  report(): PlayerReport {
    const known = (value: number) => (Number.isFinite(value) && value > 0 ? value : 0);
    const rates = known(this.#player.getAverageThroughput("video"));
    const now = this.#stalledSince === undefined ? 0 : performance.now() - this.#stalledSince;
    return {
      viewing: this.viewing,
      state: this.#state(),
      position_s: known(this.#video.currentTime),
      duration_s: known(this.#video.duration),
      buffer_s: known(this.#player.getBufferLength("video")),
      throughput_mbps: rates === 0 ? null : rates / 1000,
      rung: this.#rung(),
      stalls: this.#stalls,
      stalled_s: (this.#stalledMs + now) / 1000,
      start_up_ms: this.#startUpMs ?? null,
    };
  }

  #state(): PlayerReport["state"] {
    if (this.#startUpMs === undefined) return "starting";
    if (this.#video.ended) return "ended";
    if (this.#video.paused) return "paused";
    return this.#stalledSince === undefined ? "playing" : "stalled";
  }

  #rung(): Rung | null {
    const ladder = [...this.#player.getRepresentationsByType("video")].sort((a, b) => a.bitrateInKbit - b.bitrateInKbit);
    const index = ladder.findIndex(({ id }) => id === this.#shown?.id);
    const shown = ladder[index];
    if (shown === undefined) return null;
    return { index, of: ladder.length, kbps: shown.bitrateInKbit, width: shown.width, height: shown.height };
  }

  #waits() {
    // Before the first picture it is the start, and after a seek the viewer's wish.
    if (this.#startUpMs === undefined || this.#video.seeking || this.#video.ended || this.#stalledSince !== undefined) return;
    this.#stalls += 1;
    this.#stalledSince = performance.now();
  }

  #goesOn() {
    if (this.#stalledSince === undefined) return;
    this.#stalledMs += performance.now() - this.#stalledSince;
    this.#stalledSince = undefined;
  }
}
