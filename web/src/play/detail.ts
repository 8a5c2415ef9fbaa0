// How many pixels the view is drawn with. A browser without a GPU draws with the processor, which also has to decode. If too few pictures
// are shown, the view gets half the pixels; if all are shown for a while, it gets twice as many.

/** Pixels with which a browser that draws in software begins. */
const SOFTWARE = 512 * 512;
/** The view never has fewer pixels because of missing pictures. */
const LEAST = 256 * 256;
/** Pictures that are due between two decisions. */
const PICTURES = 30;
/** Below this share of the pictures due, the view gets half the pixels. */
const TOO_FEW = 0.8;
/** From this share on, all pictures count as shown. */
const GOOD = 0.95;
/** If half the pixels do not raise the share by this factor, drawing is not what takes the time. */
const HELPS = 1.1;
/** Decisions in a row with all pictures shown before twice the pixels are tried. After each trial that fails the number is doubled, up to the most. */
const PATIENCE = 4;
const MOST_PATIENCE = 256;

export class Detail {
  /** The view has at most this many. */
  pixels: number;
  #due = 0;
  #shown = 0;
  #good = 0;
  #patience = PATIENCE;
  /** The last change was a trial of more pixels. */
  #trial = false;
  /** The share of pictures shown before the pixels were halved, until it is known whether that helped. */
  #before: number | undefined;
  /** For so many more decisions the pixels are not halved, because that did not help. */
  #useless = 0;

  constructor(software: boolean) {
    this.pixels = software ? SOFTWARE : Infinity;
  }

  /** A slot is over. `shown` of its `due` pictures were shown; `full`: pixels of the view on this screen. */
  judge(shown: number, due: number, full: number) {
    this.#due += due;
    this.#shown += shown;
    if (this.#due < PICTURES) return;
    const share = this.#shown / this.#due;
    this.#due = 0;
    this.#shown = 0;
    const helped = this.#before === undefined || share >= HELPS * this.#before;
    this.#before = undefined;
    this.#useless = Math.max(0, this.#useless - 1);
    if (share >= TOO_FEW) {
      this.#good = share >= GOOD ? this.#good + 1 : 0;
      if (this.#good < this.#patience) return;
      this.#good = 0;
      this.#trial = this.pixels < full;
      if (this.#trial) this.pixels *= 2;
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
}
