// Where the viewer looks: mouse, touch and keyboard turn the view, which follows smoothly; a turned device or headset turns it at once.

/** Degrees. */
export interface Orientation {
  yaw: number;
  pitch: number;
  roll: number;
}

/** One press of a key. */
const STEP = 15;
const LARGE_STEP = 45;
/** The view gets within a third of what is left in this time. */
const SMOOTH_MS = 80;
const MOST_PITCH = 90;
/** Time between two reports to the player; of a device or headset that is turned, each picture's orientation is reported. */
const REPORT_MS = 50;
/** Time before the next report to a program that does not answer. */
const AGAIN_MS = 1000;

const KEYS: Record<string, [number, number]> = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, 1],
  ArrowDown: [0, -1],
};

/** What a page asks the others when it opens. */
const WHERE = "where";

/** The same angle between -180° and 180°. */
const wrapped = (angle: number) => angle - 360 * Math.round(angle / 360);

export class Look {
  #target: Orientation = { yaw: 0, pitch: 0, roll: 0 };
  #now: Orientation = { yaw: 0, pitch: 0, roll: 0 };
  /** The last orientation of the device or headset that turns the view. */
  #followed: Orientation | undefined;
  #moved = 0;
  #reported = "";
  #nextReport = 0;
  #reporting = false;
  /** Pages of one origin look the same way: those of one player, which plans for one view, and both sides of the stand. */
  readonly #others = new BroadcastChannel("look");

  constructor(canvas: HTMLCanvasElement) {
    this.#others.onmessage = ({ data }: MessageEvent<Orientation | typeof WHERE>) => {
      if (data === WHERE) this.#others.postMessage(this.#target);
      else if (this.#followed === undefined) this.#target = data;
    };
    this.#others.postMessage(WHERE);
    canvas.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.altKey || event.metaKey) return;
      if (event.key === "Home") this.ahead();
      const turn = KEYS[event.key];
      if (turn !== undefined) this.turn(turn, event.shiftKey ? LARGE_STEP : STEP);
      if (event.key === "Home" || turn !== undefined) event.preventDefault();
    });
    // Where a mouse or finger that is down was last; not every browser says how far a finger has moved.
    const down = new Map<number, [number, number]>();
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      down.set(event.pointerId, [event.clientX, event.clientY]);
    });
    canvas.addEventListener("lostpointercapture", (event) => down.delete(event.pointerId));
    canvas.addEventListener("pointermove", (event) => {
      const before = down.get(event.pointerId);
      if (before === undefined) return;
      down.set(event.pointerId, [event.clientX, event.clientY]);
      // The picture follows the finger: the height shows 90° at most.
      const degrees = 90 / Math.max(1, canvas.clientHeight);
      this.turn([before[0] - event.clientX, event.clientY - before[1]], degrees);
      this.#now = { ...this.#target };
    });
  }

  /** Turns by so many degrees to the right and up. */
  turn([right, up]: [number, number], degrees: number) {
    this.#target.yaw += right * degrees;
    if (this.#followed === undefined) {
      this.#target.pitch = Math.max(-MOST_PITCH, Math.min(MOST_PITCH, this.#target.pitch + up * degrees));
    }
    this.#others.postMessage(this.#target);
  }

  /**
   * Turns with a device or headset, whose yaw counts from the view at its first orientation. Returns the difference of the two
   * yaws, degrees: that of the view minus that of the device.
   */
  follow(orientation: Orientation): number {
    const before = this.#followed ?? orientation;
    this.#followed = orientation;
    this.#target = { ...orientation, yaw: this.#target.yaw + wrapped(orientation.yaw - before.yaw) };
    this.#now = { ...this.#target };
    this.#others.postMessage(this.#target);
    return this.#target.yaw - orientation.yaw;
  }

  /** The device or headset turns the view no longer; the horizon becomes level again. */
  release() {
    this.#followed = undefined;
    this.#target = { ...this.#target, roll: 0 };
    this.#others.postMessage(this.#target);
  }

  /** Looks straight ahead again, on the shortest way. */
  ahead() {
    const { pitch, roll } = this.#followed ?? { pitch: 0, roll: 0 };
    this.#target = { yaw: 360 * Math.round(this.#target.yaw / 360), pitch, roll };
    this.#others.postMessage(this.#target);
  }

  /** The orientation now; reports it to the program if it has changed. */
  at(now: number): Orientation {
    const part = 1 - Math.exp(-(now - this.#moved) / SMOOTH_MS);
    this.#moved = now;
    this.#now.yaw += (this.#target.yaw - this.#now.yaw) * part;
    this.#now.pitch += (this.#target.pitch - this.#now.pitch) * part;
    this.#now.roll += wrapped(this.#target.roll - this.#now.roll) * part;
    const { yaw, pitch, roll } = this.#now;
    const round = (angle: number) => Math.round(angle * 100) / 100;
    const look = { yaw: round(wrapped(yaw)), pitch: round(pitch), roll: round(wrapped(roll)) };
    void this.#report(JSON.stringify(look), now);
    return look;
  }

  async #report(look: string, now: number) {
    if (look === this.#reported || this.#reporting || now < this.#nextReport) return;
    this.#reporting = true;
    this.#nextReport = this.#followed === undefined ? now + REPORT_MS : now;
    try {
      const answer = await fetch("look", { method: "POST", body: look });
      if (answer.ok) this.#reported = look;
    } catch {
      // The feed says that the program is gone; this is said again afterwards.
      this.#nextReport = now + AGAIN_MS;
    }
    this.#reporting = false;
  }
}

/** Cosine of the angle between the direction of a yaw and a pitch and the middle of a tile, degrees; for what is urgent. */
export function nearness(look: Orientation, middle: [number, number, number]): number {
  const radians = Math.PI / 180;
  const level = Math.cos(look.pitch * radians);
  const ahead = [Math.sin(look.yaw * radians) * level, Math.sin(look.pitch * radians), Math.cos(look.yaw * radians) * level];
  return middle[0] * ahead[0]! + middle[1] * ahead[1]! + middle[2] * ahead[2]!;
}
