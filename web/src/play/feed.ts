// The messages of the program: news as JSON, and tiles. Their form: crates/tributary-stream/src/viewing/feed.rs.

import type { Path } from "../status";

export interface Video {
  news: "video";
  viewing: number;
  columns: number;
  rows: number;
  width: number;
  height: number;
  projection: "equirectangular" | "cubemap" | "top-bottom";
  gop_s: number;
  /** {@link LIVE}: it is made while it is sent. */
  gops: number;
  qps: number[];
  sound: { channels: number } | null;
  /** Degrees, horizontal and vertical. */
  field: [number, number];
  /** It is the low-resolution stream of a video, in the place of its tiles. */
  low: boolean;
  /** There is a low-resolution stream, for browsers that cannot decode the tiles. */
  has_low: boolean;
}

/** Number of GoPs of a live video. */
export const LIVE = 2 ** 32 - 1;

export interface Slot {
  news: "slot";
  slot: number;
  position_s: number;
  /** Slots are shown this much later than was planned at first, because a live source was late. */
  waited_s: number;
  /** Quality of each tile in time, -1: requested and not in time, -2: left out. */
  tiles: number[];
  bytes: number;
  /** Whether the sound was in time, if there is any. */
  sound: boolean | null;
  guard_ms: number;
  late_before: number;
}

export type News =
  | Video
  | Slot
  | { news: "state"; state: "waiting" | "connecting" | "playing" | "lost" | "ended"; cause: string | null }
  | { news: "radios"; radios: Path[] }
  | { news: "skipped"; messages: number };

export interface Tile {
  news: "tile";
  slot: number;
  /** 65535 for the sound. */
  tile: number;
  quality: number;
  inTime: boolean;
  init: Uint8Array;
  segment: Uint8Array;
}

const NEWS = 1;
/** Longer than the longest tile that the protocol allows. */
const LONGEST = 80 << 20;
/** The program says something each second while it plays; it may have nothing to say while it waits. */
const AGAIN_MS = 1000;

/** Asks the program for the low-resolution stream, for all pages; fails with the reason. */
export async function fallBack() {
  const answer = await fetch("low", { method: "POST" });
  if (!answer.ok) throw new Error((await answer.text()).trim());
}

/** Cuts a stream of bytes into messages. */
export class Messages {
  #bytes = new Uint8Array(1 << 16);
  #end = 0;

  /** The messages that are complete with these bytes. */
  *push(bytes: Uint8Array): Generator<News | Tile> {
    if (this.#end + bytes.length > this.#bytes.length) {
      const larger = new Uint8Array(Math.max(2 * this.#bytes.length, this.#end + bytes.length));
      larger.set(this.#bytes.subarray(0, this.#end));
      this.#bytes = larger;
    }
    this.#bytes.set(bytes, this.#end);
    this.#end += bytes.length;
    let at = 0;
    const view = new DataView(this.#bytes.buffer);
    while (this.#end - at >= 5) {
      const length = view.getUint32(at);
      if (length < 1 || length > LONGEST) throw new Error(`a message of ${length} bytes`);
      if (this.#end - at - 4 < length) break;
      yield message(this.#bytes.slice(at + 4, at + 4 + length));
      at += 4 + length;
    }
    this.#bytes.copyWithin(0, at, this.#end);
    this.#end -= at;
  }
}

function message(bytes: Uint8Array): News | Tile {
  if (bytes[0] === NEWS) return JSON.parse(new TextDecoder().decode(bytes.subarray(1))) as News;
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  const init = view.getUint32(9);
  if (13 + init > bytes.length) throw new Error("a tile that is cut short");
  return {
    news: "tile",
    slot: view.getUint32(1),
    tile: view.getUint16(5),
    quality: view.getUint8(7),
    inTime: view.getUint8(8) === 1,
    init: bytes.subarray(13, 13 + init),
    segment: bytes.subarray(13 + init),
  };
}

/** Passes all messages on, and connects again when the program is gone. Never returns. */
export async function follow(take: (message: News | Tile) => void, gone: (cause: string | undefined) => void) {
  for (;;) {
    try {
      const answer = await fetch("feed", { cache: "no-store" });
      if (!answer.ok || answer.body === null) throw new Error((await answer.text()).trim());
      gone(undefined);
      const messages = new Messages();
      const reader = answer.body.getReader();
      for (let read = await reader.read(); !read.done; read = await reader.read()) {
        for (const one of messages.push(read.value)) take(one);
      }
      gone("it has ended");
    } catch (error) {
      gone(error instanceof Error ? error.message : String(error));
    }
    await new Promise((done) => setTimeout(done, AGAIN_MS));
  }
}
