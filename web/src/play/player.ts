// Shows slots at their time: the program's player says when a slot begins and which of its tiles were in time; they are decoded
// and put on the sphere. Before the first one begins, the first picture of each of its tiles is shown as soon as it is decoded.

import { Decoders, SELDOM_MS, type Show } from "./decoders";
import type { News, Slot, Tile, Video } from "./feed";
import { type Orientation, nearness } from "./look";
import type { Panorama, Sphere } from "./sphere";

/** What is shown is this much behind the program's playing time, in which the first pictures of a slot are decoded. */
const DELAY_MS = 200;
/** Slots whose tiles are kept before they begin. */
const SLOTS_AHEAD = 3;
/** The clocks of page and program drift by less than this share. */
const DRIFT = 0.05;
/** Slots after one another in which the decoders of most tiles fail, after which tiles are given up. */
const MOST_FAILED = 3;
/** The same where decoders are too slow, which may pass. */
const MOST_SLOW = 10;
/** A page that is not drawn for so long is in the background. */
const BACKGROUND_MS = 1000;
/** Places across a field of view, as parts of it from its middle. */
const FIELD = [-0.45, -0.225, 0, 0.225, 0.45];

export class Player {
  video: Video | undefined;
  /** The slot that is shown. */
  slot: Slot | undefined;
  /** The last slot that the program began. */
  begun: Slot | undefined;
  /** Pictures of the panorama that were shown. */
  pictures = 0;
  /** When the first picture filled the view, and when the second one followed: milliseconds since the page was opened. */
  firstPictureMs: number | undefined;
  playsMs: number | undefined;
  readonly decoders: Decoders;
  #panorama: Panorama | undefined;
  #middles: [number, number, number][] = [];
  #tiles = new Map<number, Map<number, Tile>>();
  /** Slots that have begun, each with the number of its pictures that were shown, and the last of these. */
  #shows: { slot: Slot; show: Show; shown: number; last: number }[] = [];
  /** The first pictures of the first slot's tiles, and the places that show one. */
  #first: { show: Show; shown: Set<number> } | undefined;
  #origin: number | undefined;
  #waited_s = 0;
  /** The panorama shows nothing yet. */
  #blank = true;
  #trouble = { failed: 0, slow: 0 };
  readonly #sphere: Sphere;
  readonly #failed: (tile: number, cause: string) => void;
  readonly #overwhelmed: () => void;

  /** `overwhelmed` is called when most tiles are not decoded for several slots, and again while that lasts. */
  constructor(sphere: Sphere, failed: (tile: number, cause: string) => void, overwhelmed: () => void) {
    this.#sphere = sphere;
    this.#failed = failed;
    this.#overwhelmed = overwhelmed;
    this.decoders = new Decoders(failed);
  }

  take(message: News | Tile, now: number) {
    if (message.news === "video") this.#begin(message);
    else if (message.news === "slot") this.#slot(message, now);
    else if (message.news === "tile") this.#tile(message, now);
  }

  #begin(video: Video) {
    if (video.viewing === this.video?.viewing) return;
    const longest = Math.max(video.width, video.height);
    if (longest > this.#sphere.longest) {
      throw new Error(`the panorama has ${longest} pixels in a row, and this browser's WebGL at most ${this.#sphere.longest}`);
    }
    this.#shows.splice(0).forEach(({ show }) => this.decoders.end(show));
    this.#endFirst();
    this.#tiles.clear();
    this.#origin = undefined;
    this.begun = undefined;
    this.#trouble = { failed: 0, slow: 0 };
    const before = this.video;
    const same = (["width", "height", "columns", "rows", "projection"] as const).every((key) => before?.[key] === video[key]);
    this.video = video;
    // After a loss of the connection the last picture stays until there is a new one.
    if (same) return;
    this.#panorama = this.#sphere.set(video);
    this.#blank = true;
    this.#middles = Array.from({ length: video.columns * video.rows }, (_, tile) => middle(video, tile));
  }

  #tile(tile: Tile, now: number) {
    // A page may come in the middle of a viewing.
    const next = this.begun === undefined ? Math.min(tile.slot, ...this.#tiles.keys()) : this.begun.slot + 1;
    // The program's player has shown the slot without it.
    if (!tile.inTime || tile.slot < next || tile.slot > next + SLOTS_AHEAD) return;
    const tiles = this.#tiles.get(tile.slot) ?? new Map<number, Tile>();
    this.#tiles.set(tile.slot, tiles);
    const other = tiles.get(tile.tile);
    if (other !== undefined && other.quality <= tile.quality) return;
    tiles.set(tile.tile, tile);
    if (!this.#blank || this.begun !== undefined) return;
    this.#first ??= { show: this.decoders.show(tile.slot, [], now), shown: new Set() };
    if (tile.slot === this.#first.show.slot) this.#first.show.jobs.push(...this.decoders.show(tile.slot, [tile], now, 1).jobs);
  }

  #endFirst() {
    if (this.#first === undefined) return;
    const { show } = this.#first;
    // They are decoded with the others of their slot; there was no lack of decoders.
    for (const job of show.jobs) if (job.fed === 0) job.over = true;
    this.decoders.end(show);
    this.#first = undefined;
  }

  #slot(slot: Slot, now: number) {
    // A wait for a live source is no slow message: from this slot on, everything is shown that much later.
    if (this.#origin !== undefined) this.#origin += 1000 * (slot.waited_s - this.#waited_s);
    this.#waited_s = slot.waited_s;
    const origin = now - slot.position_s * 1000;
    // The message that took the shortest time says it best.
    this.#origin = Math.min(origin, (this.#origin ?? origin) + DRIFT * 1000 * (this.video?.gop_s ?? 1));
    this.begun = slot;
    this.#endFirst();
    const tiles = this.#tiles.get(slot.slot);
    for (const before of this.#tiles.keys()) if (before <= slot.slot) this.#tiles.delete(before);
    const show = this.decoders.show(slot.slot, [...(tiles?.values() ?? [])], now);
    this.#shows.push({ slot, show, shown: 0, last: -1 });
    // A tab in the background draws nothing. What is shown is behind by the delay, which short slots fit into more than once.
    const most = 2 + Math.floor(DELAY_MS / (1000 * (this.video?.gop_s ?? 1)));
    while (this.#shows.length > most) this.decoders.end(this.#shows.shift()!.show);
  }

  /** Milliseconds until a slot's first picture is shown. */
  shownIn(slot: number, now: number): number {
    return (this.#origin ?? now) + DELAY_MS + slot * 1000 * (this.video?.gop_s ?? 1) - now;
  }

  /** Number of the picture of a slot that is due; negative before its first. */
  #due(show: Show, now: number): number {
    const gop = 1000 * (this.video?.gop_s ?? 1);
    return Math.floor(((now - (this.#origin ?? now) - DELAY_MS - show.slot * gop) / gop) * show.pictures);
  }

  /** Decodes and shows what is due. */
  turn(now: number, look: Orientation) {
    const order = (tile: number) => -nearness(look, this.#middles[tile] ?? [0, 0, 1]);
    const shows = this.#shows.map(({ show }) => show);
    this.decoders.begin(this.#first === undefined ? shows : [...shows, this.#first.show], now);
    while (this.#shows[1] !== undefined && this.#due(this.#shows[1].show, now) >= 0) {
      const { show, shown } = this.#shows.shift()!;
      this.#judge(show, shown);
      this.decoders.end(show);
    }
    for (const { show } of this.#shows) this.decoders.turn(show, this.#due(show, now), now, order);
    if (this.#first !== undefined) this.decoders.turn(this.#first.show, 0, now, order);
    const present = this.#shows[0];
    const panorama = this.#panorama;
    if (panorama === undefined || panorama.copying) return;
    if (this.#first !== undefined) void this.#showFirst(this.#first, panorama, look);
    if (present === undefined) return;
    const due = this.#due(present.show, now);
    if (due < 0) return;
    this.slot = present.slot;
    const ready = this.#ready(present.show, due);
    if (ready.length === 0) return;
    if (due > present.last) present.shown += 1;
    present.last = due;
    this.#blank = false;
    void panorama.paste(ready, this.#failed).then(() => this.#count());
  }

  /**
   * A slot is over, of which so many pictures were shown. Whether the browser decodes the tiles is seen only by decoding: it accepts
   * configurations of any size and number.
   */
  #judge(show: Show, shown: number) {
    if (show.jobs.length > 0 && show.away < BACKGROUND_MS) this.#sphere.judge(shown, show.pictures);
    const half = (show.jobs.length + show.unreadable) / 2;
    const count = (of: (job: Show["jobs"][number]) => boolean) => show.jobs.filter(of).length;
    const failed = show.unreadable + count((job) => job.failed) > half ? this.#trouble.failed + 1 : 0;
    const slow = show.away <= SELDOM_MS && count((job) => job.returned < job.pictures.length / 2) > half ? this.#trouble.slow + 1 : 0;
    this.#trouble = { failed, slow };
    if (failed < MOST_FAILED && slow < MOST_SLOW) return;
    this.#trouble = { failed: 0, slow: 0 };
    this.#overwhelmed();
  }

  #ready(show: Show, at: number) {
    return show.jobs.flatMap((job) => {
      const frame = this.decoders.take(job, at);
      return frame === undefined ? [] : [{ tile: job.tile, frame }];
    });
  }

  async #showFirst({ show, shown }: { show: Show; shown: Set<number> }, panorama: Panorama, look: Orientation) {
    const ready = this.#ready(show, 0);
    if (ready.length === 0) return;
    await panorama.paste(ready, this.#failed);
    for (const { tile } of ready) shown.add(tile);
    // Less than a full view is no picture.
    if (this.pictures === 0 && this.#inField(look).every((tile) => shown.has(tile))) this.#count();
  }

  #count() {
    this.pictures += 1;
    const now = performance.now();
    if (this.firstPictureMs === undefined) this.firstPictureMs = now;
    else this.playsMs ??= now;
  }

  /** The tile in the middle of the view; the left eye's of two. */
  inView(look: Orientation): number {
    const near = this.#middles.map((place) => nearness(look, place));
    return near.indexOf(Math.max(...near));
  }

  /** The tiles in the field of view, about: those whose middles are nearest to its directions. */
  #inField(look: Orientation): number[] {
    const [across, upwards] = this.video?.field ?? [0, 0];
    const directions = FIELD.flatMap((right) =>
      FIELD.map((up) => ({ ...look, yaw: look.yaw + right * across, pitch: Math.max(-90, Math.min(90, look.pitch + up * upwards)) })),
    );
    return [...new Set(directions.map((direction) => this.inView(direction)))];
  }
}

/** Direction of the middle of a tile: to the right, up, ahead. */
function middle(video: Video, tile: number): [number, number, number] {
  const u = ((tile % video.columns) + 0.5) / video.columns;
  const v = (Math.floor(tile / video.columns) + 0.5) / video.rows;
  if (video.projection !== "cubemap") {
    const ofEye = video.projection === "top-bottom" ? (2 * v) % 1 : v;
    const [yaw, pitch] = [(u - 0.5) * 2 * Math.PI, (0.5 - ofEye) * Math.PI];
    return [Math.sin(yaw) * Math.cos(pitch), Math.sin(pitch), Math.cos(yaw) * Math.cos(pitch)];
  }
  const [across, down] = [2 * ((u * 3) % 1) - 1, 2 * ((v * 2) % 1) - 1];
  const faces: [number, number, number][] = [
    [1, -down, -across],
    [-1, -down, across],
    [across, 1, down],
    [across, -1, -down],
    [across, -down, 1],
    [-across, -down, -1],
  ];
  const place = faces[Math.floor(u * 3) + 3 * Math.floor(v * 2)] ?? [0, 0, 1];
  const length = Math.hypot(...place);
  return place.map((side) => side / length) as [number, number, number];
}
