// A phone or tablet that is turned turns the view. Source: W3C Device Orientation Events, §3 and appendix A.

import { Euler, Quaternion, Vector3 } from "three";
import type { Look, Orientation } from "./look";
import { orientationOf } from "./pose";

/** Browsers that ask the user, who must have pressed something. */
type Asking = typeof DeviceOrientationEvent & { requestPermission?: () => Promise<PermissionState> };

const OUT_OF_THE_SCREEN = new Vector3(0, 0, 1);
const RADIANS = Math.PI / 180;
/** The event's axes have z up; the viewer looks through the device's back. */
const THROUGH_THE_BACK = new Quaternion(-Math.SQRT1_2, 0, 0, Math.SQRT1_2);

/** The rotation of the eye behind a screen that is shown turned by an angle, degrees. */
function rotation({ alpha, beta, gamma }: { alpha: number; beta: number; gamma: number }, screenAngle: number): Quaternion {
  return new Quaternion()
    .setFromEuler(new Euler(beta * RADIANS, alpha * RADIANS, -gamma * RADIANS, "YXZ"))
    .multiply(THROUGH_THE_BACK)
    .multiply(new Quaternion().setFromAxisAngle(OUT_OF_THE_SCREEN, -screenAngle * RADIANS));
}

/**
 * Lets a button switch the turning on and off, once it is known that the device measures its orientation. Nothing is turned while
 * `worn` says that the head turns the view.
 */
export function turnWithDevice(look: Look, button: HTMLButtonElement, say: (words: string) => void, worn: () => boolean) {
  if (!("DeviceOrientationEvent" in window)) return;
  const { requestPermission } = DeviceOrientationEvent as Asking;
  let on = false;
  let held: Orientation | undefined;
  const follow = () => void (on && held !== undefined && !worn() && look.follow(held));
  const set = (now: boolean) => {
    on = now;
    button.setAttribute("aria-pressed", String(on));
    if (on) follow();
    else look.release();
  };
  button.setAttribute("aria-pressed", "false");
  // Desktop browsers have the event, too, and no angles in it.
  window.addEventListener("deviceorientation", ({ alpha, beta, gamma }) => {
    if (alpha === null || beta === null || gamma === null) return;
    button.hidden = false;
    held = orientationOf(rotation({ alpha, beta, gamma }, screen.orientation.angle));
    follow();
  });
  // Without permission there may be no events; what is held in a hand has a touch screen.
  if (requestPermission !== undefined && navigator.maxTouchPoints > 0) button.hidden = false;
  button.addEventListener("click", () => {
    if (on || requestPermission === undefined) return set(!on);
    requestPermission.call(DeviceOrientationEvent).then(
      (answer) => (answer === "granted" ? set(true) : say("the browser does not tell this page how the device is held")),
      (error: unknown) => say(`the browser does not tell how the device is held: ${String(error)}`),
    );
  });
}
