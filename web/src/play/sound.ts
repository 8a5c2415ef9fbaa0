// Plays the sound of slots with their pictures: WebCodecs decodes it when it arrives, WebAudio plays it at the time of the slot's
// first picture.
//
// A browser plays nothing before the viewer's first click or key; until then the sound is dropped. The sound of a slot that was
// not in time is a gap: what comes later keeps its time.

import type { Tile, Video } from "./feed";
import { packets } from "./mp4";

/** The number of the sound in the place of a tile's. */
export const SOUND = 0xffff;

/** Opus is always decoded at this rate. */
const RATE = 48000;
/** Duration of a packet, as `tributary ingest` encodes it. */
const PACKET_US = 100_000;
/** Sound and pictures may differ by this much; then the sound jumps to the pictures' time. Less is not noticed. */
const APART_S = 0.04;
/** Decoded packets that are kept until their slot begins: more than the player receives ahead. */
const MOST_READY = 64;

export class Sound {
  /** Slots whose sound was given to the decoder. */
  slots = 0;
  /** Slots without sound, because it was not in time or did not decode. */
  gaps = 0;
  /** Packets that were decoded after their time: the machine is too slow. */
  late = 0;
  muted = false;
  #video: Video | undefined;
  #context: AudioContext | undefined;
  #gain: GainNode | undefined;
  #decoder: AudioDecoder | undefined;
  /** The last slot whose sound was given to the decoder. */
  #last = -1;
  /** Decoded and not yet due, in their order; times in seconds from the viewing's beginning. */
  #ready: { at: number; buffer: AudioBuffer }[] = [];
  /** The end of the slot that has begun last, in the same time. */
  #until = 0;
  /** The context's time of the viewing's beginning. */
  #origin: number | undefined;
  readonly #failed: (words: string) => void;

  constructor(failed: (words: string) => void) {
    this.#failed = failed;
  }

  /** What the button says. */
  get state(): "none" | "waiting" | "playing" | "muted" {
    if (!this.#video?.sound || !("AudioDecoder" in window)) return "none";
    if (this.muted) return "muted";
    return this.#context?.state === "running" ? "playing" : "waiting";
  }

  /** The viewer has clicked or pressed a key, so that the browser allows sound. */
  allow() {
    if (this.#context?.state === "running") return;
    this.#context ??= new AudioContext({ sampleRate: RATE, latencyHint: "playback" });
    if (this.#gain === undefined) {
      this.#gain = this.#context.createGain();
      this.#gain.gain.value = this.muted ? 0 : 1;
      this.#gain.connect(this.#context.destination);
    }
    void this.#context.resume();
  }

  mute(muted: boolean) {
    this.muted = muted;
    if (this.#gain !== undefined) this.#gain.gain.value = muted ? 0 : 1;
  }

  begin(video: Video) {
    if (video.viewing === this.#video?.viewing) return;
    this.#video = video;
    this.#origin = undefined;
    this.#until = 0;
    this.#last = -1;
    this.#ready = [];
    this.#forget();
  }

  /** Decodes the sound of a slot that has not begun. */
  take(tile: Tile) {
    const video = this.#video;
    if (!tile.inTime || !video?.sound || this.#context?.state !== "running") return;
    // After a gap it does not continue what was decoded.
    if (tile.slot !== this.#last + 1) this.#forget();
    try {
      const { first, skipped, data } = packets(tile.init, tile.segment);
      // In a video that begins again, the segment's time is that of its GoP.
      const round = tile.slot - (tile.slot % video.gops);
      const at = round * video.gop_s + (first - skipped) / RATE;
      const decoder = (this.#decoder ??= this.#make(video.sound.channels));
      data.forEach((packet, number) => {
        const timestamp = Math.round(1e6 * at) + PACKET_US * number;
        decoder.decode(new EncodedAudioChunk({ type: "key", timestamp, duration: PACKET_US, data: packet }));
      });
      this.#last = tile.slot;
      this.slots += 1;
    } catch (error) {
      this.#broken(error);
    }
  }

  /** A slot begins, and its first picture is shown in so many milliseconds; `inTime`: whether its sound was, `null` without any. */
  slot(slot: number, inTime: boolean | null, inMs: number) {
    const [video, context] = [this.#video, this.#context];
    if (!video?.sound || context?.state !== "running") return;
    const begins = slot * video.gop_s;
    const origin = context.currentTime + inMs / 1000 - (context.outputLatency || 0) - begins;
    if (this.#origin === undefined || Math.abs(origin - this.#origin) > APART_S) this.#origin = origin;
    if (inTime === false) this.gaps += 1;
    this.#until = begins + video.gop_s;
    this.#play();
  }

  #make(channels: number): AudioDecoder {
    const decoder = new AudioDecoder({
      output: (data) => {
        this.#keep(data);
        data.close();
        this.#play();
      },
      error: (error) => this.#broken(error),
    });
    decoder.configure({ codec: "opus", sampleRate: RATE, numberOfChannels: channels });
    return decoder;
  }

  #keep(data: AudioData) {
    const buffer = this.#context?.createBuffer(data.numberOfChannels, data.numberOfFrames, data.sampleRate);
    if (buffer === undefined) return;
    for (let channel = 0; channel < data.numberOfChannels; channel += 1) {
      data.copyTo(buffer.getChannelData(channel), { planeIndex: channel, format: "f32-planar" });
    }
    this.#ready.push({ at: data.timestamp / 1e6, buffer });
    this.#ready.splice(0, Math.max(0, this.#ready.length - MOST_READY));
  }

  /** Plays what is decoded of the slots that have begun. */
  #play() {
    const [context, gain, origin] = [this.#context, this.#gain, this.#origin];
    if (context === undefined || gain === undefined || origin === undefined) return;
    while (this.#ready[0] !== undefined && this.#ready[0].at < this.#until) {
      const { at, buffer } = this.#ready.shift()!;
      // Whole samples, so that one piece follows the other without a click.
      const when = Math.round((origin + at) * RATE) / RATE;
      if (when < context.currentTime) {
        this.late += 1;
        continue;
      }
      const source = new AudioBufferSourceNode(context, { buffer });
      source.connect(gain);
      source.start(when);
    }
  }

  #broken(error: unknown) {
    this.gaps += 1;
    this.#failed(`the sound does not decode: ${error instanceof Error ? error.message : String(error)}`);
    this.#forget();
  }

  #forget() {
    if (this.#decoder !== undefined && this.#decoder.state !== "closed") this.#decoder.close();
    this.#decoder = undefined;
  }
}
