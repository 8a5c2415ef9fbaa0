// What the page asks the program, and dash.js, which the program has, too.

import type { Path } from "../status";
import type { PlayerReport, Viewing } from "../viewing";

/** A viewing in `tributary status --json`, as docs/guide/status.md describes it. */
export interface Status extends Viewing {
  title: string;
  viewing: number;
  state: string;
  cause: string | null;
  requests: number;
  continued: number;
  failed: number;
  bytes: number;
  radios: Path[] | null;
}

/** Another page plays the title. */
export class Superseded extends Error {}

async function ask<Answer>(path: string, body?: unknown): Promise<Answer> {
  const how = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
  const answer = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(5000), ...how });
  if (answer.ok) return (await answer.json()) as Answer;
  const words = (await answer.text()).trim();
  throw answer.status === 409 ? new Superseded(words) : new Error(words);
}

export const now = () => ask<Status>("now");
/** The answer has what is reported. */
export const report = (said: PlayerReport) => ask<Status>("report", said);
export const begin = () => ask<{ viewing: number; manifest: string }>("begin", {});
/** Also while the page is being closed. */
export const leave = (viewing: number) => navigator.sendBeacon("end", JSON.stringify({ viewing }));

/** The part of dash.js's interface that is used. */
export interface DashPlayer {
  initialize(video: HTMLVideoElement, url: string, autoplay: boolean): void;
  on(event: string, listener: (event: { mediaType?: string; newRepresentation?: Representation; error?: { message?: string } }) => void): void;
  addRequestInterceptor(change: (request: { url: string }) => Promise<{ url: string }>): void;
  getBufferLength(type: string): number;
  getAverageThroughput(type: string): number;
  getRepresentationsByType(type: string): Representation[];
  destroy(): void;
}

interface Representation {
  id: string;
  bitrateInKbit: number;
  width: number;
  height: number;
}

interface DashJs {
  MediaPlayer(): { create(): DashPlayer };
}

declare const DASH_JS_HASH: string;

/** Loads dash.js. The page's policy allows exactly this script. */
export function load(): Promise<DashJs> {
  return new Promise((done, failed) => {
    const script = document.createElement("script");
    script.src = "dash.js";
    script.integrity = DASH_JS_HASH;
    script.onload = () => done((window as unknown as { dashjs: DashJs }).dashjs);
    script.onerror = () => failed(new Error("dash.js could not be loaded"));
    document.head.append(script);
  });
}

/** Where the program has a file of the title's server `host`. Other servers cannot be reached from here. */
export function through(url: string, host: string): string {
  const at = new URL(url, location.href);
  const here = new URL("title", location.href);
  if (at.origin === here.origin && at.pathname.startsWith(`${here.pathname}/`)) return at.href;
  return at.origin === here.origin || at.host === host ? `${here.href}${at.pathname}${at.search}` : at.href;
}
