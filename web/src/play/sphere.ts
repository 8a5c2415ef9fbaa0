// The sphere around the viewer. The tiles' samples lie in one buffer of three planes (4:2:0), as in the panorama; one shader
// looks a direction up in the projection and converts BT.709. Tiles without a new picture keep their last one.

import {
  BackSide,
  DataTexture,
  LinearFilter,
  Mesh,
  PerspectiveCamera,
  RedFormat,
  RepeatWrapping,
  Scene,
  ShaderMaterial,
  SphereGeometry,
  WebGLRenderer,
} from "three";
import { Detail } from "./detail";
import type { Video } from "./feed";

const VERTEX = `
varying vec3 direction;
void main() {
  // Right-handed here, with z behind the viewer; z is ahead in the projections.
  direction = vec3(position.xy, -position.z);
  // Both eyes, and a head that moves, are in the middle of the sphere.
  gl_Position = projectionMatrix * vec4(mat3(modelViewMatrix) * position, 1.0);
}`;

// crates/tributary-video/src/projection.rs
const FRAGMENT = `
varying vec3 direction;
uniform sampler2D luma, blue, red;
uniform bool cube;
// The pictures in one above the other, and which of them is shown.
uniform float eyes, eye;
uniform vec2 texel;
const float PI = 3.141592653589793;
vec2 face(float number, float depth, float across, float down) {
  vec2 place = clamp(vec2(across, down) / depth * 0.5 + 0.5, texel * vec2(3.0, 2.0), 1.0 - texel * vec2(3.0, 2.0));
  return (vec2(mod(number, 3.0), floor(number / 3.0)) + place) / vec2(3.0, 2.0);
}
vec2 place(vec3 d) {
  if (!cube) {
    float down = 0.5 - asin(clamp(d.y, -1.0, 1.0)) / PI;
    float edge = eyes * texel.y;
    return vec2(atan(d.x, d.z) / (2.0 * PI) + 0.5, (clamp(down, edge, 1.0 - edge) + eye) / eyes);
  }
  vec3 a = abs(d);
  if (a.x >= a.y && a.x >= a.z) return d.x >= 0.0 ? face(0.0, a.x, -d.z, -d.y) : face(1.0, a.x, d.z, -d.y);
  if (a.y >= a.z) return d.y > 0.0 ? face(2.0, a.y, d.x, d.z) : face(3.0, a.y, d.x, -d.z);
  return d.z > 0.0 ? face(4.0, a.z, d.x, -d.y) : face(5.0, a.z, -d.x, -d.y);
}
void main() {
  vec2 at = place(normalize(direction));
  float y = (texture2D(luma, at).r * 255.0 - 16.0) / 219.0;
  float u = (texture2D(blue, at).r * 255.0 - 128.0) / 224.0;
  float v = (texture2D(red, at).r * 255.0 - 128.0) / 224.0;
  gl_FragColor = vec4(y + 1.5748 * v, y - 0.1873 * u - 0.4681 * v, y + 1.8556 * u, 1.0);
}`;

interface Plane {
  at: number;
  width: number;
  height: number;
  texture: DataTexture;
}

/** The panorama's samples. */
export class Panorama {
  readonly #samples: Uint8Array<ArrayBuffer>;
  readonly planes: [Plane, Plane, Plane];
  readonly #tile: { width: number; height: number };
  readonly #columns: number;
  /** Whether samples are being copied, in which time they are neither shown nor changed otherwise. */
  copying = false;
  /** Number of times that it has changed. */
  changes = 0;

  constructor(video: Video) {
    const { width, height } = video;
    // A row between planes: a tile's last row ends after its plane, as WebCodecs counts.
    const chroma = (width / 2) * (height / 2);
    const starts = [0, width * (height + 1), width * (height + 1) + chroma + width / 2] as const;
    this.#samples = new Uint8Array(starts[2] + chroma + width / 2);
    this.#samples.fill(16, 0, starts[1]);
    this.#samples.fill(128, starts[1]);
    const plane = (at: number, by: number): Plane => {
      const size = { width: width / by, height: height / by };
      const samples = this.#samples.subarray(at, at + size.width * size.height);
      const texture = new DataTexture(samples, size.width, size.height, RedFormat);
      texture.minFilter = LinearFilter;
      texture.magFilter = LinearFilter;
      if (video.projection !== "cubemap") texture.wrapS = RepeatWrapping;
      texture.unpackAlignment = 1;
      texture.needsUpdate = true;
      return { at, ...size, texture };
    };
    this.planes = [plane(starts[0], 1), plane(starts[1], 2), plane(starts[2], 2)];
    this.#tile = { width: width / video.columns, height: height / video.rows };
    this.#columns = video.columns;
  }

  /** Copies new pictures of tiles, closes them, and shows all of them together. */
  async paste(pictures: { tile: number; frame: VideoFrame }[], failed: (tile: number, cause: string) => void) {
    this.copying = true;
    await Promise.all(
      pictures.map(async ({ tile, frame }) => {
        try {
          await this.#paste(tile, frame);
        } catch (error) {
          failed(tile, `cannot be shown: ${error instanceof Error ? error.message : String(error)}`);
        } finally {
          frame.close();
        }
      }),
    );
    this.copying = false;
    this.changes += 1;
    for (const plane of this.planes) plane.texture.needsUpdate = true;
  }

  async #paste(tile: number, frame: VideoFrame) {
    const { width, height } = this.#tile;
    const rect = frame.visibleRect;
    if (rect?.width !== width || rect.height !== height) throw new Error(`${rect?.width}×${rect?.height} pixels`);
    const x = (tile % this.#columns) * width;
    const y = Math.floor(tile / this.#columns) * height;
    const layout = this.planes.map((plane, index) => {
      const by = index === 0 ? 1 : 2;
      return { offset: plane.at + (y / by) * plane.width + x / by, stride: plane.width };
    });
    if (frame.format === "I420") {
      await frame.copyTo(this.#samples, { layout });
    } else if (frame.format === "NV12") {
      await this.#split(frame, layout);
    } else {
      throw new Error(`pictures of the form ${frame.format}`);
    }
  }

  /** Blue and red samples alternate. */
  async #split(frame: VideoFrame, layout: { offset: number; stride: number }[]) {
    const { width, height } = this.#tile;
    const copy = new Uint8Array((width * height * 3) / 2);
    await frame.copyTo(copy, { layout: [{ offset: 0, stride: width }, { offset: width * height, stride: width }] });
    const [luma, ...chroma] = layout as [{ offset: number; stride: number }, ...{ offset: number; stride: number }[]];
    for (let row = 0; row < height; row += 1) {
      this.#samples.set(copy.subarray(row * width, (row + 1) * width), luma.offset + row * luma.stride);
    }
    chroma.forEach(({ offset, stride }, which) => {
      for (let row = 0; row < height / 2; row += 1) {
        for (let column = 0; column < width / 2; column += 1) {
          const from = width * height + row * width + 2 * column + which;
          this.#samples[offset + row * stride + column] = copy[from]!;
        }
      }
    });
  }

  dispose() {
    for (const plane of this.planes) plane.texture.dispose();
  }
}

/** Whether the browser draws with the processor, if it says so. */
function isSoftware(gl: WebGLRenderingContext | WebGL2RenderingContext): boolean {
  const info = gl.getExtension("WEBGL_debug_renderer_info");
  return info !== null && /SwiftShader|llvmpipe|softpipe|Software|Basic Render/i.test(String(gl.getParameter(info.UNMASKED_RENDERER_WEBGL)));
}

/** What is drawn for each eye is in a layer of three.js's own for it. */
const LEFT_EYE = 1;
/** A picture that does not change is drawn again after this time, whatever became of the last one. */
const AGAIN_MS = 1000;

/** Draws the sphere on a canvas, or in a headset. */
export class Sphere {
  readonly #renderer: WebGLRenderer;
  readonly #scene = new Scene();
  readonly #camera = new PerspectiveCamera(90, 1, 0.1, 10);
  #shown: { panorama: Panorama; meshes: Mesh<SphereGeometry, ShaderMaterial>[] } | undefined;
  #field: [number, number] = [110, 90];
  /** What was drawn last, and when. */
  #drawn = { what: "", at: -Infinity };
  readonly #detail: Detail;
  /** Pixels of the canvas on this screen. */
  #full = 0;
  /** By how much the sphere is turned around a headset, degrees to the left. */
  heading = 0;

  /** Fails without WebGL 2. */
  constructor(canvas: HTMLCanvasElement) {
    this.#renderer = new WebGLRenderer({ canvas, antialias: false });
    this.#renderer.xr.enabled = true;
    this.#renderer.xr.setReferenceSpaceType("local");
    this.#camera.rotation.order = "YXZ";
    this.#camera.layers.enable(LEFT_EYE);
    this.#detail = new Detail(isSoftware(this.#renderer.getContext()));
  }

  /** A slot is over: so many of the pictures that were due were shown. */
  judge(shown: number, due: number) {
    if (!this.#renderer.xr.isPresenting) this.#detail.judge(shown, due, this.#full);
  }

  /** What the view is drawn with, pixels. */
  get drawn(): string {
    const { width, height } = this.#renderer.domElement;
    return `${width}×${height}`;
  }

  /** Calls back before each picture of the page, or of the headset while it is used. */
  loop(turn: (now: number, frame?: XRFrame) => void) {
    this.#renderer.setAnimationLoop(turn);
  }

  /** Draws no more, and leaves the headset, in which nothing can be read. */
  end() {
    this.#renderer.setAnimationLoop(null);
    void this.#renderer.xr.getSession()?.end();
  }

  /** Draws in the headset from now on, until its session ends. */
  async present(session: XRSession) {
    await this.#renderer.xr.setSession(session);
  }

  /** In which the headset's poses are, while there is a session. */
  get space(): XRReferenceSpace | null {
    return this.#renderer.xr.getReferenceSpace();
  }

  /** The longest side of a panorama, pixels. */
  get longest() {
    return this.#renderer.capabilities.maxTextureSize;
  }

  /** Shows a panorama of this kind, black at first. */
  set(video: Video): Panorama {
    const panorama = new Panorama(video);
    this.#field = video.field;
    for (const { geometry, material } of this.#shown?.meshes ?? []) {
      geometry.dispose();
      material.dispose();
    }
    this.#shown?.panorama.dispose();
    this.#scene.clear();
    const [luma, blue, red] = panorama.planes.map((plane) => ({ value: plane.texture }));
    const cube = { value: video.projection === "cubemap" };
    const texel = { value: [1 / video.width, 1 / video.height] };
    const eyes = video.projection === "top-bottom" ? 2 : 1;
    const meshes = Array.from({ length: eyes }, (_, eye) => {
      const uniforms = { luma, blue, red, texel, cube, eyes: { value: eyes }, eye: { value: eye } } as ShaderMaterial["uniforms"];
      const material = new ShaderMaterial({ vertexShader: VERTEX, fragmentShader: FRAGMENT, uniforms, side: BackSide });
      const mesh = new Mesh(new SphereGeometry(1, 64, 32), material);
      mesh.frustumCulled = false;
      if (eyes > 1) mesh.layers.set(LEFT_EYE + eye);
      return mesh;
    });
    this.#scene.add(...meshes);
    this.#shown = { panorama, meshes };
    this.#drawn.what = "";
    return panorama;
  }

  /** Draws what a viewer sees who looks there, degrees, if it is not what was drawn last: a browser without a GPU needs its processor to decode. */
  draw({ yaw, pitch, roll }: { yaw: number; pitch: number; roll: number }) {
    const radians = Math.PI / 180;
    if (this.#renderer.xr.isPresenting) {
      this.#scene.rotation.y = this.heading * radians;
      this.#renderer.render(this.#scene, this.#camera);
      this.#drawn.what = "";
      return;
    }
    this.#scene.rotation.y = 0;
    const canvas = this.#renderer.domElement;
    const ratio = Math.min(devicePixelRatio, 2);
    this.#full = canvas.clientWidth * canvas.clientHeight * ratio * ratio;
    const scale = ratio * Math.sqrt(Math.min(1, this.#detail.pixels / this.#full));
    const [width, height] = [canvas.clientWidth * scale, canvas.clientHeight * scale].map(Math.round) as [number, number];
    if (width === 0 || height === 0) return;
    const [what, now] = [[yaw, pitch, roll, width, height, this.#shown?.panorama.changes].join(" "), performance.now()];
    if (what === this.#drawn.what && now - this.#drawn.at < AGAIN_MS) return;
    this.#drawn = { what, at: now };
    if (canvas.width !== width || canvas.height !== height) this.#renderer.setSize(width, height, false);
    // Within the field for which the player plans, whatever the window's shape.
    const half = (degrees: number) => Math.tan((degrees * Math.PI) / 360);
    const upwards = Math.min(half(this.#field[1]), (half(this.#field[0]) * height) / width);
    this.#camera.fov = (Math.atan(upwards) * 360) / Math.PI;
    this.#camera.aspect = width / height;
    this.#camera.updateProjectionMatrix();
    this.#camera.rotation.set(pitch * radians, -yaw * radians, -roll * radians);
    this.#renderer.render(this.#scene, this.#camera);
  }
}
