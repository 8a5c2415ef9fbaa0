// An hour of the pages' models at high speed, without a browser: what the page of `tributary stream play --web` and the dashboard keep
// does not grow with the slots, tiles, pictures and events that they have seen; what happens when tiles are too many, or of no codec that is
// known. Usage: node --expose-gc hour.mjs
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const web = join(import.meta.dirname, '../../web');
const { createServer } = await import(pathToFileURL(createRequire(join(web, 'package.json')).resolve('vite')).href);
const vite = await createServer({ root: join(web, 'src'), configFile: false, logLevel: 'error', server: { middlewareMode: true, watch: null, hmr: false, ws: false }, appType: 'custom', optimizeDeps: { noDiscovery: true } });
const load = (file) => vite.ssrLoadModule(`/${file}`);

const SLOTS = 3600;
const PICTURES = 25;
const TILES = 8;
/** Bytes by which the heap may grow from a tenth of the hour to its end. */
const ALLOWED = 1 << 20;

const fail = (words) => {
  throw new Error(words);
};

/** Decodes each picture at once; now and then a decoder fails or stops, as in a browser. */
const open = new Set();
let decodes = 0;
let failing = false;
let stopping = false;
let accidents = true;
globalThis.VideoDecoder = class {
  state = 'unconfigured';
  #stopped = false;
  constructor({ output, error }) {
    Object.assign(this, { output, error });
  }
  configure() {
    if (failing) throw new Error('no more decoders');
    this.state = 'configured';
  }
  decode({ timestamp }) {
    decodes += 1;
    this.#stopped ||= stopping || (accidents && decodes % 1009 === 0);
    if (this.#stopped) return;
    if (accidents && decodes % 997 === 0) {
      this.state = 'closed';
      return this.error(new Error('broken'));
    }
    const frame = { timestamp, close: () => open.delete(frame) };
    open.add(frame);
    this.output(frame);
  }
  flush() {
    return this.#stopped ? new Promise(() => {}) : Promise.resolve();
  }
  reset() {
    this.state = 'unconfigured';
    this.#stopped = false;
  }
  close() {
    this.state = 'closed';
  }
};
globalThis.EncodedVideoChunk = class {
  constructor(fields) {
    Object.assign(this, fields);
  }
};

const box = (name, ...contents) => {
  const length = contents.reduce((sum, content) => sum + content.length, 8);
  const head = Buffer.alloc(8);
  head.writeUInt32BE(length);
  head.write(name, 4, 'latin1');
  return Buffer.concat([head, ...contents]);
};
const initOf = (codec) => box('moov', box('trak', box('mdia', box('minf', box('stbl', box('stsd', Buffer.alloc(8), box(codec, Buffer.alloc(78), box('avcC', Buffer.from([1, 66, 0, 30, 255, 225, 0])))))))));
const init = initOf('avc1');
const sizes = Buffer.alloc(8 + 4 * PICTURES);
sizes.writeUInt32BE(0x200, 0);
sizes.writeUInt32BE(PICTURES, 4);
for (let at = 0; at < PICTURES; at += 1) sizes.writeUInt32BE(100, 8 + 4 * at);
const segment = Buffer.concat([box('moof', box('traf', box('trun', sizes))), box('mdat', Buffer.alloc(100 * PICTURES))]);

const json = (news) => framed(1, Buffer.from(JSON.stringify(news)));
function framed(kind, content) {
  const head = Buffer.alloc(5);
  head.writeUInt32BE(1 + content.length);
  head[4] = kind;
  return Buffer.concat([head, content]);
}
function tile(slot, number, quality, init_ = init) {
  const head = Buffer.alloc(12);
  head.writeUInt32BE(slot, 0);
  head.writeUInt16BE(number, 4);
  head[6] = quality;
  head[7] = Number(slot % 7 !== 3 || number % 2 === 0);
  head.writeUInt32BE(init_.length, 8);
  return framed(2, Buffer.concat([head, init_, segment]));
}

const held = () => {
  globalThis.gc();
  globalThis.gc();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
};
/** Fails if what is held grows from a tenth of the steps to their end. */
async function flat(name, steps, step) {
  let early = 0;
  for (let at = 0; at < steps; at += 1) {
    await step(at);
    if (at === steps / 10) early = held();
  }
  const late = held();
  console.log(`${name}: ${(early / 1e6).toFixed(1)} MB after a tenth of ${steps} steps, ${(late / 1e6).toFixed(1)} MB after all`);
  if (late > early + ALLOWED) fail(`${name} grows from ${early} to ${late} bytes`);
}

try {
  const { Messages } = await load('play/feed.ts');
  const { Player } = await load('play/player.ts');
  const shown = { pasted: 0 };
  const panorama = {
    copying: false,
    async paste(pictures) {
      for (const { frame } of pictures) frame.close();
      shown.pasted += pictures.length;
    },
  };
  const judged = { slots: 0, least: 1 };
  const judge = (pictures, due) => Object.assign(judged, { slots: judged.slots + 1, least: Math.min(judged.least, pictures / due) });
  const sphere = { longest: 8192, set: () => panorama, judge };
  const failures = { count: 0, overwhelmed: 0 };
  const player = new Player(sphere, () => (failures.count += 1), () => (failures.overwhelmed += 1));
  const messages = new Messages();
  const take = (bytes, now) => {
    for (const message of messages.push(bytes)) player.take(message, now);
  };
  const video = { news: 'video', columns: 4, rows: 2, width: 512, height: 256, projection: 'equirectangular', gop_s: 1, gops: 30, qps: [22, 42], sound: null, field: [110, 90], low: false, has_low: true };
  take(json({ ...video, viewing: 0 }), 0);
  // The first picture fills the view before the first slot begins.
  for (let number = 0; number < TILES; number += 1) take(tile(0, number, 1), 0);
  const ahead = { yaw: 0, pitch: 0, roll: 0 };
  for (let turn = 0; turn < 3; turn += 1) {
    player.turn(turn, ahead);
    await null;
    await null;
  }
  if (player.pictures !== 1 || player.slot !== undefined || player.firstPictureMs === undefined) fail(`${player.pictures} pictures before the first slot`);
  if (player.playsMs !== undefined) fail('it plays before the first slot');
  await flat('the page of stream play --web', SLOTS, async (slot) => {
    const now = 1000 * slot;
    if (slot % 900 === 899) take(json({ ...video, viewing: slot }), now);
    if (slot % 500 < 20) {
      // Nothing is drawn in a tab in the background.
    } else {
      for (let picture = 0; picture < 30; picture += 1) {
        player.turn(now + 33 * picture, { yaw: picture, pitch: 0, roll: 0 });
        await null;
      }
    }
    for (let number = 0; number < TILES; number += 1) for (const quality of [1, 0]) take(tile(slot + 1, number, quality), now + 990);
    const news = { news: 'slot', slot: slot + 1, position_s: slot + 1, waited_s: 0, tiles: Array(TILES).fill(0), bytes: 1, sound: null, guard_ms: 1, late_before: 0 };
    take(json(news), now + 1000);
  });
  const { counters } = player.decoders;
  if (shown.pasted < SLOTS * TILES * 15 || counters.corrupt === 0 || counters.overflow > 0) fail(`${shown.pasted} pictures, ${JSON.stringify(counters)}`);
  if (failures.overwhelmed > 0) fail('a few tiles that do not decode are no reason for low resolution');
  // Each slot counts, but not one that the page was not drawn for: that says nothing about the machine.
  if (judged.slots < SLOTS * 0.9 || judged.slots > SLOTS || judged.least < 0.8) fail(`${judged.slots} slots counted, one with ${judged.least} of its pictures`);
  if (open.size > 3 * TILES * 20) fail(`${open.size} pictures are not closed`);

  // When most decoders fail for a few slots, and not before, the page asks for low resolution, once.
  failing = true;
  for (let slot = SLOTS + 1; slot < SLOTS + 6; slot += 1) {
    for (let picture = 0; picture < 30; picture += 1) player.turn(1000 * slot + 33 * picture, ahead);
    for (let number = 0; number < TILES; number += 1) take(tile(slot + 1, number, 0), 1000 * slot + 990);
    take(json({ news: 'slot', slot: slot + 1, position_s: slot + 1, waited_s: 0, tiles: [], bytes: 1, sound: null, guard_ms: 1, late_before: 0 }), 1000 * slot + 1000);
    if (slot === SLOTS + 3 && failures.overwhelmed > 0) fail('low resolution after two slots');
  }
  if (failures.overwhelmed !== 1) fail(`low resolution was asked for ${failures.overwhelmed} times`);

  // Machines that draw so many pixels for each picture that is due, or whose decoders return half of the pictures.
  const { Detail } = await load('play/detail.ts');
  const hour = (software, most, decoded = 30) => {
    const detail = new Detail(software);
    const full = 800 * 600;
    return Array.from({ length: SLOTS }, () => {
      const pixels = Math.min(detail.pixels, full);
      const pictures = Math.min(decoded, 30, Math.floor((30 * most) / pixels));
      detail.judge(pictures, 30, full);
      return { pixels, pictures };
    });
  };
  const share = (slots, is) => slots.filter(is).length / slots.length;
  const slow = hour(true, 200_000);
  if (share(slow, ({ pictures }) => pictures >= 24) < 0.99 || share(slow, ({ pixels }) => pixels > 100_000) < 0.99) fail('a slow machine shows too few pictures, or pixels');
  if (share(hour(false, 200_000), ({ pictures }) => pictures >= 24) < 0.99) fail('a machine with a slow GPU shows too few pictures');
  if (share(hour(true, 1e7), ({ pixels }) => pixels === 480_000) < 0.99) fail('a fast machine does not draw all pixels');
  if (share(hour(false, 1e7, 15), ({ pixels }) => pixels === 480_000) < 0.99) fail('fewer pixels where the decoders are slow');
  if (share(hour(true, 20_000), ({ pixels }) => pixels >= 65_536) < 1) fail('a picture of too few pixels');
  // A fast machine that was busy for a second has all pixels again soon: the pixels that it had for long were no trial that failed.
  const busy = new Detail(true);
  for (let slot = 0; slot < 100; slot += 1) busy.judge(30, 30, 480_000);
  busy.judge(10, 30, 480_000);
  if (busy.pixels >= 480_000) fail('a busy machine draws all pixels');
  for (let slot = 0; slot < 5; slot += 1) busy.judge(30, 30, 480_000);
  if (busy.pixels < 480_000) fail(`five seconds after it was busy, a fast machine draws ${busy.pixels} pixels`);

  // A browser that does not know the tiles' codec, and a page that does not, have the same way out.
  const unknown = { overwhelmed: 0, words: new Set() };
  failing = false;
  const other = new Player(sphere, (_, words) => unknown.words.add(words), () => (unknown.overwhelmed += 1));
  for (const message of messages.push(json({ ...video, viewing: 0 }))) other.take(message, 0);
  for (let slot = 0; slot < 6; slot += 1) {
    for (let number = 0; number < TILES; number += 1) for (const message of messages.push(tile(slot, number, 0, initOf('hvc1')))) other.take(message, 1000 * slot);
    const news = { news: 'slot', slot, position_s: slot, waited_s: 0, tiles: Array(TILES).fill(0), bytes: 1, sound: null, guard_ms: 1, late_before: 0 };
    for (const message of messages.push(json(news))) other.take(message, 1000 * slot);
    for (let picture = 0; picture < 30; picture += 1) other.turn(1000 * slot + 33 * picture, ahead);
  }
  if (unknown.overwhelmed === 0) fail('tiles of an unknown codec are no reason for low resolution');
  const [said] = unknown.words;
  if (unknown.words.size !== 1 || !said.includes('its codec is hvc1')) fail(`of tiles of an unknown codec is said: ${[...unknown.words]}`);

  // With more tiles than decoders those in the middle of the view are decoded, and the others keep their last picture.
  accidents = false;
  const { Decoders, MOST_DECODERS } = await load('play/decoders.ts');
  const many = new Decoders(() => {});
  const all = Array.from({ length: MOST_DECODERS + 32 }, (_, number) => ({ tile: number, init, segment }));
  const show = many.show(0, all, 0);
  many.turn(show, 0, 0, (number) => -number);
  const begun = show.jobs.filter((job) => job.fed > 0).map((job) => job.tile);
  many.end(show);
  if (begun.length !== MOST_DECODERS || Math.min(...begun) !== 32) fail(`tiles ${begun} of ${all.length} are decoded`);
  if (many.counters.overflow !== 32) fail(`${many.counters.overflow} tiles are said to be without a decoder`);

  // A decoder that returns nothing is given up, not earlier than after two seconds of turns, and its tile says so.
  stopping = true;
  const stopped = [];
  const watched = new Decoders((tile, words) => stopped.push(`${tile} ${words}`));
  const silent = watched.show(0, [all[7]], 0);
  for (let now = 0; now <= 2200; now += 100) {
    if (now <= 2000 && stopped.length > 0) fail(`a decoder was given up after ${now} ms`);
    watched.begin([silent], now);
    watched.turn(silent, 0, now, () => 0);
  }
  if (watched.counters.watchdog !== 1 || String(stopped) !== '7 does not decode: its decoder has stopped') fail(`a decoder that has stopped: ${stopped}`);
  stopping = false;

  const { History } = await load('history.ts');
  const history = new History();
  await flat('the dashboard', SLOTS, (second) => {
    const path = (at) => ({ radio: `radio${at}`, state: second % 60 < 5 ? 'down' : 'up', cause: second % 60 < 5 ? `at ${second}` : null, rtt_ms: second % 60 < 5 ? null : 10, loss: second % 2 === 0 ? null : 0.25, send_mbps: 1, receive_mbps: 2 });
    // Every tenth second another client comes and another program ends.
    const session = (at) => ({ session: `s${at + Math.floor(second / 10)}`, peer: null, paths: [0, 1, 2].map((radio) => path(radio + (Math.floor(second / 30) % 100))) });
    const program = (pid) => ({ role: 'serve', pid, started: 0, uptime_s: second, sessions: pid === 1 ? [session(0)] : [session(0), session(1)] });
    history.add([program(1), program(2), program(3 + Math.floor(second / 10))], new Date(1000 * second));
  });
  if (history.curves.size !== 3) fail(`${history.curves.size} curves`);
  const [{ times, ...kinds }] = history.curves.values();
  for (const [kind, radios] of Object.entries(kinds)) {
    for (const [radio, samples] of radios) if (samples.length !== times.length) fail(`${kind} of ${radio}: ${samples.length} samples at ${times.length} times`);
  }
  const newest = [...kinds.losses.values()].map((samples) => samples.at(-1));
  if (kinds.rtts.size === 0 || !newest.includes(0.25)) fail(`RTTs of ${kinds.rtts.size} radios, losses ${newest}`);

  const { parse, MOST_EVENTS } = await load('run.ts');
  const event = (t, rest) => JSON.stringify({ event: 'path', t, session: 's', path: 0, radio: 'wlan0', ...rest });
  const metric = (t) => JSON.stringify({ name: 'recovery:metrics_updated', time: 1000 * t, group_id: 's/0', data: { smoothed_rtt: t % 50 } });
  const log = Array.from({ length: 90_000 }, (_, at) => (at % 2 === 0 ? event(at / 25, { state: at % 4 === 0 ? 'up' : 'down' }) : metric(at / 25)));
  const run = parse(log.join('\n'));
  const [lane] = run.lanes.filter((one) => one.rtt.length > 0);
  const lengths = [run.events.length, ...run.lanes.flatMap((one) => [one.rtt.length, one.spans.length])];
  if (lengths.some((length) => length > MOST_EVENTS)) fail(`a saved run of an hour has ${lengths} events, samples and spans`);
  if (lane.rtt.length < MOST_EVENTS / 4 || lane.rtt.at(-1).at < 3590) fail('the samples do not cover the hour');
  console.log('an hour is flat in memory');
} finally {
  await vite.close();
}
