// The video in a headset: WebXR draws both eyes where the head looks, and the head turns the view.

import { Quaternion } from "three";
import type { Look } from "./look";
import { orientationOf } from "./pose";
import type { Sphere } from "./sphere";

const MODE = "immersive-vr";

export class Headset {
  #session: XRSession | undefined;
  readonly #look: Look;
  readonly #sphere: Sphere;
  readonly #button: HTMLButtonElement;

  /** Shows the button while there is a headset. */
  constructor(sphere: Sphere, look: Look, button: HTMLButtonElement, say: (words: string) => void) {
    this.#sphere = sphere;
    this.#look = look;
    this.#button = button;
    const xr = navigator.xr;
    if (xr === undefined) return;
    const find = async () => (button.hidden = !(await xr.isSessionSupported(MODE).catch(() => false)));
    void find();
    xr.addEventListener("devicechange", () => void find());
    button.addEventListener("click", () => {
      const done = this.#session === undefined ? this.#enter(xr) : this.#session.end();
      done.catch((error: unknown) => say(`the headset cannot be used: ${error instanceof Error ? error.message : String(error)}`));
    });
  }

  get worn(): boolean {
    return this.#session !== undefined;
  }

  async #enter(xr: XRSystem) {
    this.#button.disabled = true;
    try {
      const session = await xr.requestSession(MODE);
      session.addEventListener("end", () => this.#leave());
      this.#session = session;
      // The head's orientation has nothing to do with that of the device in a hand.
      this.#look.release();
      this.#button.textContent = "Leave VR";
      await this.#sphere.present(session);
    } catch (error) {
      await this.#session?.end().catch(() => undefined);
      throw error;
    } finally {
      this.#button.disabled = false;
    }
  }

  #leave() {
    this.#session = undefined;
    this.#button.textContent = "Enter VR";
    this.#look.release();
  }

  /** The head's pose in a picture of the session. */
  at(frame: XRFrame) {
    const space = this.#sphere.space;
    const pose = space && frame.getViewerPose(space);
    if (!pose) return;
    const { x, y, z, w } = pose.transform.orientation;
    const head = orientationOf(new Quaternion(x, y, z, w));
    this.#sphere.heading = this.#look.follow(head);
  }
}
