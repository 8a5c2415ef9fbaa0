// The orientation of a device or a headset, as the program counts it.

import { Euler, type Quaternion } from "three";
import type { Orientation } from "./look";

const euler = new Euler();

/** Yaw to the right, pitch up and roll to the right shoulder of a rotation from WebXR's axes: x to the right, y up, z behind. */
export function orientationOf(rotation: Quaternion): Orientation {
  const { x, y, z } = euler.setFromQuaternion(rotation, "YXZ");
  const degrees = 180 / Math.PI;
  return { yaw: -y * degrees, pitch: x * degrees, roll: -z * degrees };
}
