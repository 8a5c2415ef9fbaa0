// What a page decodes and plays of a video's sound. Needs nothing but WebAudio: what the page gives to the loudspeaker, an analyser
// gets, too.
import { PATIENCE, fail, sleep } from './stand.mjs';

/** In a page before its own script: keeps what its AudioDecoder returns, and listens to what goes to its loudspeaker. */
export function listen() {
  const heard = (window.heard = { decoded: [], analyser: undefined });
  const Decoder = window.AudioDecoder;
  window.AudioDecoder = class extends Decoder {
    constructor(init) {
      const output = (data) => {
        const samples = new Float32Array(data.numberOfFrames);
        data.copyTo(samples, { planeIndex: 0, format: 'f32-planar' });
        heard.decoded.push({ timestamp: data.timestamp, rate: data.sampleRate, samples: [...samples] });
        heard.decoded.splice(0, heard.decoded.length - 100);
        init.output(data);
      };
      super({ ...init, output });
    }
  };
  const connect = AudioNode.prototype.connect;
  AudioNode.prototype.connect = function (to, ...rest) {
    if (to instanceof AudioDestinationNode) {
      heard.analyser ??= new AnalyserNode(this.context, { fftSize: 16384, smoothingTimeConstant: 0 });
      connect.call(this, heard.analyser);
    }
    return connect.call(this, to, ...rest);
  };
}

/** Waits until the page plays a tone, Hz. */
export async function plays(page, tone) {
  const strongest = () => {
    const { analyser } = window.heard;
    if (analyser === undefined) return false;
    const levels = new Float32Array(analyser.frequencyBinCount);
    analyser.getFloatFrequencyData(levels);
    const at = levels.indexOf(Math.max(...levels));
    return levels[at] > -60 && (at * analyser.context.sampleRate) / analyser.fftSize;
  };
  const found = await (await page.waitForFunction(strongest, undefined, PATIENCE)).jsonValue();
  if (Math.abs(found - tone) > 6) fail(`the page plays a tone of ${found} Hz instead of ${tone} Hz`);
  return found;
}

/** Waits until the page plays nothing. */
export async function silent(page) {
  const quiet = () => {
    const levels = new Float32Array(window.heard.analyser.frequencyBinCount);
    window.heard.analyser.getFloatFrequencyData(levels);
    return Math.max(...levels) < -100;
  };
  await page.waitForFunction(quiet, undefined, PATIENCE);
}

/** Packets that are compared: less than a third of a second, because a page on a busy machine may leave out a GoP every second. */
const PACKETS = 15;
/** Packets that are partly silent where the video begins again: the last ones are filled up, and the first one begins before its sound. */
const PARTLY = 3;

/** Which packets have the usual power: no part of them is silent. */
function whole(packets) {
  const powers = packets.map(({ samples }) => samples.reduce((sum, sample) => sum + sample * sample, 0) / samples.length);
  const usual = powers.toSorted((a, b) => a - b)[packets.length >> 1];
  return powers.map((power) => power > 0.95 * usual);
}

/** What is missing in packets of sound; one place where the video begins again is no fault. */
function missing(packets) {
  if (packets.length < PACKETS) return `only ${packets.length} packets of sound were decoded`;
  for (const [at, { timestamp, samples, rate }] of packets.slice(0, -1).entries()) {
    const step = packets[at + 1].timestamp - timestamp;
    const lasts = (samples.length / rate) * 1e6;
    // Where the video begins again, the step differs by less than this.
    if (Math.abs(step - lasts) > 100000) return `after ${lasts} µs of sound comes that of ${step} µs later`;
  }
  const partly = whole(packets).flatMap((is, at) => (is ? [] : [at]));
  return partly.at(-1) - partly[0] >= PARTLY ? `packets ${partly.join(', ')} of ${packets.length} are partly silent` : undefined;
}

/**
 * The tone of what the page decoded last, Hz, by the times at which it crosses zero. Waits until nothing is missing: a page that is late on
 * a busy machine goes on with a later GoP, and its decoder begins anew.
 */
export async function decoded(page) {
  const last = async () => (await page.evaluate(() => window.heard.decoded)).slice(-PACKETS);
  let packets = await last();
  for (const end = Date.now() + PATIENCE.timeout; missing(packets) !== undefined; packets = await last()) {
    if (Date.now() > end) fail(missing(packets));
    await sleep(200);
  }
  const of = whole(packets);
  const pieces = packets.filter((_, at) => of[at]);
  const crosses = (sample, at, samples) => at > 0 && samples[at - 1] < 0 && sample >= 0;
  const count = pieces.reduce((sum, { samples }) => sum + samples.filter(crosses).length, 0);
  const seconds = pieces.reduce((sum, { samples, rate }) => sum + samples.length / rate, 0);
  return count / seconds;
}
