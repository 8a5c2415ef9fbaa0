// A video whose every pixel is known, and what a page shows of it.
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { inflateSync } from 'node:zlib';
import { PATIENCE, fail } from './stand.mjs';

/** The tone of the source's sound, Hz. */
export const TONE_HZ = 880;

/** A filter that puts below each picture another one with its blue and red exchanged. */
const BELOW = ',split[left][same];[same]swapuv[right];[left][right]vstack';

/**
 * Tiles of a panorama whose four sides differ in colour and whose seconds differ in brightness, with lines that are away from its middles.
 * For two eyes, the right one's picture is below, with its colours exchanged.
 */
export function source(stand, eyes = 1) {
  const video = join(stand.directory, `source-${eyes}.mp4`);
  const side = 'floor(mod(X+64,512)/128)';
  const line = 'lt(mod(X+16,32),2)+lt(mod(Y+16,32),2)';
  const picture = `geq=lum='70+40*floor(T)+25*(${line})':cb='60+45*${side}':cr='200-45*${side}'`;
  const colour = ['-color_range', 'tv', '-colorspace', 'bt709', '-color_primaries', 'bt709', '-color_trc', 'bt709'];
  const input = ['-f', 'lavfi', '-i', `color=s=512x256:r=25:d=3,format=yuv444p,${picture},format=yuv420p${eyes === 1 ? '' : BELOW}`];
  const tone = ['-f', 'lavfi', '-i', `sine=f=${TONE_HZ}:r=44100:d=3`, '-c:a', 'aac'];
  execFileSync('ffmpeg', ['-nostdin', '-v', 'error', ...input, ...tone, ...colour, '-c:v', 'libx264', '-crf', '10', video]);
  const tiles = join(stand.directory, `tiles-${eyes}`);
  const stereo = eyes === 1 ? [] : ['--eyes', 'top-bottom'];
  stand.run('ingest', video, '--out', tiles, '--grid', '4x2', '--qps', '22,42', '--preset', 'ultrafast', '--json', ...stereo);
  return tiles;
}

/** Red, green and blue of a pixel of each GoP's source for one or two eyes. */
export function expected(tiles, x, y, eyes = 1) {
  const height = 256 * eyes;
  return [0, 1, 2].map((gop) => {
    const file = join(tiles, 'source', `0000${gop}.h264`);
    const raw = ['-frames:v', '1', '-f', 'rawvideo', '-pix_fmt', 'yuv420p', 'pipe:1'];
    const samples = execFileSync('ffmpeg', ['-nostdin', '-v', 'error', '-i', file, ...raw], { maxBuffer: 1 << 24 });
    const chroma = 512 * height + (y >> 1) * 256 + (x >> 1);
    return rgb(samples[y * 512 + x], samples[chroma], samples[chroma + (256 * height) / 2]);
  });
}

/** Red, green and blue of a pixel, as BT.709 in limited range defines them. */
export function rgb(y, cb, cr) {
  const luma = (y - 16) / 219;
  const [u, v] = [cb, cr].map((value) => (value - 128) / 224);
  const colour = [luma + 1.5748 * v, luma - 0.1873 * u - 0.4681 * v, luma + 1.8556 * u];
  return colour.map((value) => Math.round(255 * Math.min(1, Math.max(0, value))));
}

/** The pixel in the middle of a canvas or video, or at another part of its width, as a picture of the page shows it. */
export async function pixel(page, canvas, part = 0.5) {
  const box = await canvas.boundingBox();
  const clip = { x: Math.round(box.x + box.width * part), y: Math.round(box.y + box.height / 2), width: 1, height: 1 };
  const png = await page.screenshot({ clip });
  const parts = [];
  for (let at = 8; at < png.length; at += 12 + png.readUInt32BE(at)) {
    if (png.toString('latin1', at + 4, at + 8) === 'IDAT') parts.push(png.subarray(at + 8, at + 8 + png.readUInt32BE(at)));
  }
  // One pixel behind the number of its filter: whatever the filter, there is nothing to subtract.
  return [...inflateSync(Buffer.concat(parts)).subarray(1, 4)];
}

/** Waits until a canvas shows a picture: it is black before the first one, although the player plays already. */
export async function appears(page, canvas) {
  const until = Date.now() + PATIENCE.timeout;
  while ((await pixel(page, canvas)).every((value) => value === 0)) {
    if (Date.now() > until) fail('the canvas stays black');
  }
}

/**
 * Waits until the middle of a canvas, or another place across it, has shown every GoP of the source, and nothing else. Words that
 * cover the canvas are no picture: a connection may end once more after the page has said that it plays.
 */
export async function shows(page, colours, canvas = page.locator('canvas'), across = 0.5) {
  const seen = new Set();
  const until = Date.now() + PATIENCE.timeout;
  const covered = () => page.locator('.over').isVisible();
  while (seen.size < colours.length) {
    if (Date.now() > until) fail(`of GoPs 0 to 2 only ${[...seen]} were shown`);
    const before = await covered();
    const found = await pixel(page, canvas, across);
    const gop = colours.findIndex((colour) => colour.every((value, at) => Math.abs(value - found[at]) <= 10));
    if (gop >= 0) seen.add(gop);
    else if (!before && !(await covered())) fail(`the canvas shows ${found}, and the source has ${colours.join(' or ')}`);
  }
}
