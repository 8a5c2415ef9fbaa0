// With how many pixels the view is drawn. A browser without a GPU draws with the processor that also decodes: where too few pictures
// are shown, the view gets fewer pixels, and more again after a while without trouble.

/** What a browser that draws in software begins with. */
const SOFTWARE = 512 * 512;
/** Fewer would be worse than missing pictures. */
const LEAST = 256 * 256;
/** Pictures that are due between two decisions. */
const PICTURES = 30;
/** Below this share of the pictures due, the view gets half the pixels. */
const TOO_FEW = 0.8;
/** At this share, all is well. */
const GOOD = 0.95;
/** Half the pixels show at least so many times as many pictures, or drawing is not what takes the time. */
const HELPS = 1.1;
/** Decisions in a row at which all is well before twice the pixels are tried; twice as long after each trial that failed. */
const PATIENCE = 4;
const MOST_PATIENCE = 256;

export class Detail {
  /** The view is drawn with no more. */
  pixels: number;
  #due = 0;
  #shown = 0;
  #good = 0;
  #patience = PATIENCE;
  /** The last change was a trial of more pixels. */
  #trial = false;
  /** The share of pictures shown before the pixels were halved, until it is known whether that helped. */
  #before: number | undefined;
  /** Decisions for which the pixels are not halved, since that did not help. */
  #useless = 0;

  constructor(software: boolean) {
    this.pixels = software ? SOFTWARE : Infinity;
  }

  /** A slot is over: so many of the pictures that were due were shown; `full` is the view's pixels on this screen. */
  judge(shown: number, due: number, full: number) {
    this.#due += due;
    this.#shown += shown;
    if (this.#due < PICTURES) return;
    const share = this.#shown / this.#due;
    this.pause();
    const helped = this.#before === undefined || share >= HELPS * this.#before;
    this.#before = undefined;
    this.#useless = Math.max(0, this.#useless - 1);
    if (share >= TOO_FEW) {
      this.#good = share >= GOOD ? this.#good + 1 : 0;
      if (this.#good < this.#patience || this.pixels >= full) return;
      this.pixels *= 2;
      this.#trial = true;
      this.#good = 0;
      return;
    }
    this.#good = 0;
    if (!helped) {
      this.pixels *= 2;
      this.#useless = MOST_PATIENCE;
    } else if (this.#useless === 0 && Math.min(this.pixels, full) > LEAST) {
      this.pixels = Math.max(LEAST, Math.min(this.pixels, full) / 2);
      if (this.#trial) this.#patience = Math.min(2 * this.#patience, MOST_PATIENCE);
      else this.#before = share;
      this.#trial = false;
    }
  }

  /** What was shown so far does not count: the page was in the background, for example. */
  pause() {
    this.#due = 0;
    this.#shown = 0;
  }
}
