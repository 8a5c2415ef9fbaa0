// A sender that pushes a live stream whose every picture says when it was made, and what a server of it says of itself.
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { rgb } from './video.mjs';

export const GOP_S = 0.5;
/** Pictures a second. */
export const RATE = 10;
/** Where the sender connects to. */
const PORT = 9021;
/** The seconds that the pictures count; then they begin again. */
export const ROUND_S = 10;
/** The colour of each tenth of a second of a round: brightness says the tenth, blue the second. A frozen tile of another brightness is an error that is planned for. */
export const COLOURS = Array.from({ length: 10 * ROUND_S }, (_, tenth) => rgb(76 + 9 * (tenth % 10), 98 + 6 * Math.floor(tenth / 10), 128));
/** Options of `stream serve` for the stream. */
export const SOURCE = ['--source', `srt://127.0.0.1:${PORT}?mode=listener`, '--gop', String(GOP_S), '--grid', '4x2', '--qps', '24'];

/** Sends the stream, at its own speed, until it is killed. The server may not listen yet, so it is tried again. */
export function send() {
  const state = { ended: false, child: undefined };
  const picture = `geq=lum='76+9*floor(mod(time(0)*10,10))':cb='98+6*mod(floor(time(0)),${ROUND_S})':cr=128`;
  const input = ['-re', '-f', 'lavfi', '-i', `color=s=32x16:r=${RATE},format=yuv420p,${picture},scale=512:256:flags=neighbor`];
  const coding = ['-c:v', 'libx264', '-preset', 'ultrafast', '-tune', 'zerolatency', '-crf', '12', '-g', String(RATE)];
  const begin = () => {
    state.child = spawn('ffmpeg', ['-nostdin', '-v', 'quiet', ...input, ...coding, '-f', 'mpegts', `srt://127.0.0.1:${PORT}`], { stdio: 'ignore' });
    state.child.on('exit', () => !state.ended && setTimeout(begin, 200));
  };
  begin();
  return state;
}

export const stop = async (sender) => {
  sender.ended = true;
  const gone = new Promise((done) => sender.child.once('exit', done));
  sender.child.kill('SIGKILL');
  await gone;
};

/** Bytes of memory that a process has now. */
export const resident = (pid) => 1024 * Number(/VmRSS:\s*(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))[1]);
