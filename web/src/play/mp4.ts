// The parts of MP4 that a decoder needs: its configuration and the coded pictures or packets of sound (ISO/IEC 14496-12, 14496-15;
// Encapsulation of Opus in ISO Base Media File Format).

export interface Configuration {
  /** RFC 6381 §3.3. */
  codec: string;
  /** The content of `avcC`. */
  description: Uint8Array<ArrayBuffer>;
}

/** Fixed fields of a sample entry of video before its boxes, bytes. */
const SAMPLE_ENTRY = 78;
/** The same of sound. */
const SOUND_ENTRY = 28;
const MOST_PICTURES = 60_000;

const viewOf = (bytes: Uint8Array) => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);

function* boxes(bytes: Uint8Array): Generator<[string, Uint8Array]> {
  const view = viewOf(bytes);
  for (let at = 0; at < bytes.length; ) {
    const size = at + 8 <= bytes.length ? view.getUint32(at) : 0;
    if (size < 8 || at + size > bytes.length) throw new Error("a box is cut short");
    yield [String.fromCharCode(...bytes.subarray(at + 4, at + 8)), bytes.subarray(at + 8, at + size)];
    at += size;
  }
}

function child(bytes: Uint8Array, ...path: string[]): Uint8Array {
  for (const name of path) {
    const found = [...boxes(bytes)].find(([kind]) => kind === name);
    if (found === undefined) throw new Error(`there is no ${name}`);
    bytes = found[1];
  }
  return bytes;
}

/** The decoder's configuration in an initialisation segment. */
export function configuration(init: Uint8Array): Configuration {
  const entries = child(init, "moov", "trak", "mdia", "minf", "stbl", "stsd").subarray(8);
  const [kind, entry] = boxes(entries).next().value ?? ["absent", entries];
  if (kind !== "avc1") throw new Error(`its codec is ${kind}, and this page decodes H.264 (avc1) only`);
  const description = child(entry.subarray(SAMPLE_ENTRY), "avcC").slice();
  if (description.length < 7) throw new Error("avcC is cut short");
  const level = [...description.subarray(1, 4)].map((byte) => byte.toString(16).padStart(2, "0"));
  return { codec: `avc1.${level.join("")}`, description };
}

/** The packets of a segment of Opus, the time of the first one, and how much of the track's beginning is not presented, in samples. */
export function packets(init: Uint8Array, segment: Uint8Array): { first: number; skipped: number; data: Uint8Array[] } {
  const entries = child(init, "moov", "trak", "mdia", "minf", "stbl", "stsd").subarray(8);
  const opus = child(child(entries, "Opus").subarray(SOUND_ENTRY), "dOps");
  const time = child(segment, "moof", "traf", "tfdt");
  if (opus.length < 4 || time.length < 12 || time[0] !== 1) throw new Error("the times of the sound are cut short");
  return {
    first: Number(viewOf(time).getBigUint64(4)),
    skipped: viewOf(opus).getUint16(2),
    data: pictures(segment),
  };
}

/** The coded pictures of a media segment, in their order. */
export function pictures(segment: Uint8Array): Uint8Array[] {
  const run = child(segment, "moof", "traf", "trun");
  const data = child(segment, "mdat");
  const view = viewOf(run);
  const flags = view.getUint32(0) & 0xffffff;
  const count = view.getUint32(4);
  if (count === 0 || count > MOST_PICTURES) throw new Error(`${count} pictures`);
  if (!(flags & 0x200)) throw new Error("pictures without sizes");
  let at = 8 + (flags & 0x1 ? 4 : 0) + (flags & 0x4 ? 4 : 0);
  const before = flags & 0x100 ? 4 : 0;
  const step = before + 4 + (flags & 0x400 ? 4 : 0) + (flags & 0x800 ? 4 : 0);
  const found: Uint8Array[] = [];
  for (let from = 0; found.length < count; at += step) {
    const size = view.getUint32(at + before);
    if (size === 0 || from + size > data.length) throw new Error("a picture is cut short");
    found.push(data.subarray(from, from + size));
    from += size;
  }
  return found;
}
