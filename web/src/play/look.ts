// Where the viewer looks: mouse, touch and keyboard turn the view, which follows smoothly.

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
/** Time between two reports to the player. */
const REPORT_MS = 50;
/** Time before the next report to a program that does not answer. */
const AGAIN_MS = 1000;

const KEYS: Record<string, [number, number]> = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, 1],
  ArrowDown: [0, -1],
};

export class Look {
  #target: Orientation = { yaw: 0, pitch: 0, roll: 0 };
  #now: Orientation = { yaw: 0, pitch: 0, roll: 0 };
  #moved = 0;
  #reported = "";
  #reportedAt = -Infinity;
  #reporting = false;
  /** Pages of one origin look the same way: those of one player, which plans for one view, and both sides of the stand. */
  readonly #others = new BroadcastChannel("look");

  constructor(canvas: HTMLCanvasElement) {
    this.#others.onmessage = (event: MessageEvent<Orientation>) => (this.#target = event.data);
    canvas.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.altKey || event.metaKey) return;
      if (event.key === "Home") this.ahead();
      const turn = KEYS[event.key];
      if (turn !== undefined) this.turn(turn, event.shiftKey ? LARGE_STEP : STEP);
      if (event.key === "Home" || turn !== undefined) event.preventDefault();
    });
    canvas.addEventListener("pointerdown", (event) => canvas.setPointerCapture(event.pointerId));
    canvas.addEventListener("pointermove", (event) => {
      if (!canvas.hasPointerCapture(event.pointerId)) return;
      // The picture follows the finger: the height shows 90° at most.
      const degrees = 90 / Math.max(1, canvas.clientHeight);
      this.turn([-event.movementX, event.movementY], degrees);
      this.#now = { ...this.#target };
    });
  }

  /** Turns by so many degrees to the right and up. */
  turn([right, up]: [number, number], degrees: number) {
    this.#target.yaw += right * degrees;
    this.#target.pitch = Math.max(-MOST_PITCH, Math.min(MOST_PITCH, this.#target.pitch + up * degrees));
    this.#others.postMessage(this.#target);
  }

  /** Looks straight ahead again, on the shortest way. */
  ahead() {
    this.#target = { yaw: 360 * Math.round(this.#target.yaw / 360), pitch: 0, roll: 0 };
    this.#others.postMessage(this.#target);
  }

  /** The orientation now; reports it to the program if it has changed. */
  at(now: number): Orientation {
    const part = 1 - Math.exp(-(now - this.#moved) / SMOOTH_MS);
    this.#moved = now;
    this.#now.yaw += (this.#target.yaw - this.#now.yaw) * part;
    this.#now.pitch += (this.#target.pitch - this.#now.pitch) * part;
    const { yaw, pitch, roll } = this.#now;
    const round = (angle: number) => Math.round(angle * 100) / 100;
    const look = { yaw: round(yaw - 360 * Math.round(yaw / 360)), pitch: round(pitch), roll: round(roll) };
    void this.#report(JSON.stringify(look), now);
    return look;
  }

  async #report(look: string, now: number) {
    if (look === this.#reported || this.#reporting || now - this.#reportedAt < REPORT_MS) return;
    this.#reporting = true;
    this.#reportedAt = now;
    try {
      const answer = await fetch("look", { method: "POST", body: look });
      if (answer.ok) this.#reported = look;
    } catch {
      // The feed says that the program is gone; this is said again afterwards.
      this.#reportedAt = now + AGAIN_MS - REPORT_MS;
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
