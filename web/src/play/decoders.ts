// Decodes the tiles of slots. Each tile of a slot is a job: a closed GoP that one decoder of the pool decodes picture by
// picture, a little ahead of what is shown.
//
// - Pool: decoders are reused. If there are more jobs than decoders, the jobs nearest to the middle of the view go first, and
//   the other tiles keep their last picture (overflow).
// - Watchdog: a job whose decoder returns nothing for too long is given up, with its decoder.
// - A tile that does not decode is given up, too. In both cases its place keeps its last picture.

import { type Configuration, configuration, pictures } from "./mp4";

/** Software decoders run beside each other; more than this only take memory. */
export const MOST_DECODERS = 64;
/** Pictures that are decoded ahead of the one that is shown. */
const AHEAD = 8;
/** Pictures that are in a decoder at a time. */
const IN_DECODER = 12;
/** A decoder that has pictures to decode returns one within this time, or never. */
const WATCHDOG_MS = 2000;
/** A page that is drawn this seldom is in the background, or the machine is too slow; decoders are not to blame for that time. */
export const SELDOM_MS = 200;

export interface Counters {
  /** Tiles of slots whose decoding began. */
  jobs: number;
  decoded: number;
  /** Pictures that were decoded after their time: the machine is too slow. */
  tooLate: number;
  corrupt: number;
  watchdog: number;
  /** Tiles of slots for which there was no decoder. */
  overflow: number;
}

interface Job {
  tile: number;
  configuration: Configuration;
  pictures: Uint8Array[];
  fed: number;
  returned: number;
  progress: number;
  frames: VideoFrame[];
  worker: Worker | undefined;
  over: boolean;
  /** It was given up. */
  failed: boolean;
}

interface Worker {
  decoder: VideoDecoder;
  job: Job | undefined;
  configured: string;
}

/** The jobs of one slot. */
export interface Show {
  slot: number;
  jobs: Job[];
  /** Tiles that are no jobs, because they are cut short or of an unknown codec. */
  unreadable: number;
  /** Pictures of the slot's GoP. */
  pictures: number;
  /** It had a turn, and so the chance of a decoder for each job. */
  turned: boolean;
  /** The longest time in which the page was not drawn while the slot was there, ms. */
  away: number;
}

export class Decoders {
  readonly counters: Counters = { jobs: 0, decoded: 0, tooLate: 0, corrupt: 0, watchdog: 0, overflow: 0 };
  #workers: Worker[] = [];
  #begun = 0;
  #failed: (tile: number, cause: string) => void;

  constructor(failed: (tile: number, cause: string) => void) {
    this.#failed = failed;
  }

  /** Takes the tiles of a slot, or only so many of their pictures. */
  show(slot: number, tiles: { tile: number; init: Uint8Array; segment: Uint8Array }[], now: number, most = Infinity): Show {
    const jobs: Job[] = [];
    let unreadable = 0;
    for (const { tile, init, segment } of tiles) {
      try {
        const job = { tile, configuration: configuration(init), pictures: pictures(segment).slice(0, most) };
        const state = { fed: 0, returned: 0, progress: now, frames: [], worker: undefined, over: false, failed: false };
        jobs.push({ ...job, ...state });
        this.counters.jobs += 1;
      } catch (error) {
        unreadable += 1;
        this.counters.corrupt += 1;
        this.#failed(tile, `does not decode: ${error instanceof Error ? error.message : String(error)}`);
      }
    }
    return { slot, jobs, unreadable, pictures: Math.max(1, ...jobs.map((job) => job.pictures.length)), turned: false, away: 0 };
  }

  /** The page is drawn again. To be called with all shows, before they are given their turn. */
  begin(shows: Show[], now: number) {
    const away = now - this.#begun;
    this.#begun = now;
    for (const show of shows) {
      show.away = Math.max(show.away, away);
      if (away > SELDOM_MS) for (const job of show.jobs) job.progress += away;
    }
  }

  /** Decodes on, up to a little more than picture `at`; the tiles with the smallest `order` first. */
  turn(show: Show, at: number, now: number, order: (tile: number) => number) {
    show.turned = true;
    const open = show.jobs.filter((job) => !job.over);
    for (const job of open.sort((a, b) => order(a.tile) - order(b.tile))) {
      if (job.returned < job.fed && now - job.progress > WATCHDOG_MS) {
        this.counters.watchdog += 1;
        this.#giveUp(job, "does not decode: its decoder has stopped");
        continue;
      }
      this.#feed(job, at, now);
    }
  }

  #feed(job: Job, at: number, now: number) {
    try {
      const worker = job.worker ?? this.#worker(job);
      if (worker === undefined) return;
      while (job.fed < job.pictures.length && job.fed <= at + AHEAD && job.fed - job.returned < IN_DECODER) {
        const type = job.fed === 0 ? "key" : "delta";
        if (job.fed === job.returned) job.progress = now;
        worker.decoder.decode(new EncodedVideoChunk({ type, timestamp: job.fed, data: job.pictures[job.fed]! }));
        job.fed += 1;
        if (job.fed === job.pictures.length) void this.#finish(job, worker);
      }
    } catch (error) {
      this.counters.corrupt += 1;
      this.#giveUp(job, `does not decode: ${error instanceof Error ? error.message : String(error)}`);
    }
  }

  async #finish(job: Job, worker: Worker) {
    try {
      await worker.decoder.flush();
    } catch {
      return; // The decoder was given up or failed, and its error callback said so.
    }
    if (worker.job === job) worker.job = undefined;
    job.worker = undefined;
    job.over = true;
  }

  /** The newest decoded picture up to number `at` that was not taken before; the caller closes it. */
  take(job: Job, at: number): VideoFrame | undefined {
    let newest: VideoFrame | undefined;
    while (job.frames[0] !== undefined && job.frames[0].timestamp <= at) {
      newest?.close();
      newest = job.frames.shift();
    }
    if (newest !== undefined && newest.timestamp < at) this.counters.tooLate += 1;
    return newest;
  }

  /** The slot is over. */
  end(show: Show) {
    for (const job of show.jobs) {
      if (show.turned && !job.over && job.worker === undefined && job.fed === 0) this.counters.overflow += 1;
      job.frames.splice(0).forEach((frame) => frame.close());
      if (job.worker !== undefined) {
        job.worker.configured = "";
        job.worker.job = undefined;
        if (job.worker.decoder.state !== "closed") job.worker.decoder.reset();
      }
      job.worker = undefined;
      job.over = true;
    }
  }

  /** A decoder for a job, if one is free or another one may be made. */
  #worker(job: Job): Worker | undefined {
    const key = `${job.configuration.codec} ${job.configuration.description}`;
    // A browser takes back decoders that have long been idle, for example in the background.
    this.#workers = this.#workers.filter((worker) => worker.decoder.state !== "closed");
    const idle = this.#workers.filter((worker) => worker.job === undefined);
    let worker = idle.find((worker) => worker.configured === key) ?? idle[0];
    if (worker === undefined && this.#workers.length < MOST_DECODERS) {
      worker = this.#make();
      this.#workers.push(worker);
    }
    if (worker === undefined) return undefined;
    worker.job = job;
    job.worker = worker;
    if (worker.configured !== key) {
      worker.configured = key;
      // Hardware decoders are few, and give pictures that cannot be copied cheaply into one texture.
      const { codec, description } = job.configuration;
      worker.decoder.configure({ codec, description, optimizeForLatency: true, hardwareAcceleration: "prefer-software" });
    }
    return worker;
  }

  #make(): Worker {
    const worker: Worker = {
      job: undefined,
      configured: "",
      decoder: new VideoDecoder({
        output: (frame) => {
          const job = worker.job;
          if (job === undefined || job.over) return frame.close();
          this.counters.decoded += 1;
          job.returned += 1;
          job.progress = performance.now();
          job.frames.push(frame);
        },
        error: (error) => {
          const job = worker.job;
          if (job !== undefined) {
            this.counters.corrupt += 1;
            this.#giveUp(job, `does not decode: ${error.message}`);
          }
        },
      }),
    };
    return worker;
  }

  #giveUp(job: Job, cause: string) {
    const worker = job.worker;
    job.worker = undefined;
    job.over = true;
    job.failed = true;
    job.frames.splice(0).forEach((frame) => frame.close());
    if (worker !== undefined) {
      worker.job = undefined;
      this.#workers = this.#workers.filter((other) => other !== worker);
      if (worker.decoder.state !== "closed") worker.decoder.close();
    }
    this.#failed(job.tile, cause);
  }
}
