// An hour, or so many seconds, of a live source in the page of `tributary stream play --web` in Chromium: the memory of the server, of
// the player and of the page stays the same, also when the sender leaves and comes back. Prints a line of JSON each minute. Usage, in a
// network namespace of its own: node live-hour.mjs PROGRAM [SECONDS]
import { spawn } from 'node:child_process';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { PATIENCE, Stand, fail, sleep } from './stand.mjs';
import { SOURCE, resident, send, stop } from './sender.mjs';

const [program, seconds = '3600'] = process.argv.slice(2);
const stand = new Stand(program);
/** The sender leaves this often. */
const ROUND_S = 600;
/** What a program may hold more at the end, as a share of what it held early, and in bytes; a leak of a picture a second is more. */
const ALLOWED = { share: 0.05, bytes: 8 << 20 };

const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];
const live = () => stand.status().find((one) => one.role === 'stream serve').live;

/** Opens a page that nobody inspects: an inspector keeps a copy of all that its page receives. */
function open(url) {
  const data = join(stand.directory, 'chromium');
  // Small: drawing in software costs more than everything else.
  const options = ['--headless=new', '--no-sandbox', '--disable-gpu', '--enable-unsafe-swiftshader', '--no-first-run', '--window-size=480,270', `--user-data-dir=${data}`];
  const child = spawn(process.env.CHROMIUM ?? '/usr/bin/chromium', [...options, url], { stdio: 'ignore', detached: true });
  /** The process of the page is the largest of its kind; others wait for pages to come. */
  const renderer = () => {
    const is = (pid) => {
      try {
        const words = readFileSync(`/proc/${pid}/cmdline`, 'latin1');
        return words.includes('--type=renderer') && words.includes(data);
      } catch {
        return false;
      }
    };
    return Math.max(0, ...readdirSync('/proc').filter((name) => /^\d+$/.test(name) && is(name)).map(resident));
  };
  return { renderer, close: () => process.kill(-child.pid) };
}

/** Until the server's state of the source is this one. */
async function becomes(state) {
  for (const until = Date.now() + PATIENCE.timeout; live().state !== state; await sleep(200)) {
    if (Date.now() > until) fail(`the source is not ${state}: ${JSON.stringify(live())}`);
  }
}

let sender;
let page;
try {
  const keys = stand.keys();
  sender = send();
  const served = await stand.start('stream', 'serve', ...SOURCE, '--listen', '10.9.9.1:0', ...keys.server);
  const paths = stand.paths(served.answer.listening[0]).flatMap((path) => ['--path', path]);
  const player = await stand.start('stream', 'play', '--web', '127.0.0.1:0', ...paths, '--wait', '3', ...keys.client);
  page = open(player.answer.url);
  const playing = () => stand.status().find((one) => one.role === 'stream play');
  for (const until = Date.now() + PATIENCE.timeout; !playing().shown; await sleep(200)) if (Date.now() > until) fail('nothing is shown');

  const began = Date.now();
  const samples = [];
  let left = began;
  // real time: what is tested is that an hour of it changes nothing.
  while (Date.now() < began + 1000 * Number(seconds)) {
    await sleep(Math.min(60_000, 50 * Number(seconds)));
    const { shown, state, pages } = playing();
    const held = { server: resident(served.child.pid), player: resident(player.child.pid), page: page.renderer() };
    const now = { minute: Number(((Date.now() - began) / 60_000).toFixed(1)), slot: shown.slot, state, pages, held };
    console.log(JSON.stringify(now));
    samples.push(now);
    if (Date.now() > left + 1000 * ROUND_S) {
      left = Date.now();
      await stop(sender);
      await becomes('away');
      sender = send();
      await becomes('live');
    }
  }
  // What fills at the beginning, such as caches of the allocator, is not looked at.
  const part = Math.ceil(samples.length / 6);
  const [early, late] = [samples.slice(part, 2 * part), samples.slice(-part)];
  for (const name of Object.keys(early[0].held)) {
    const [before, after] = [early, late].map((some) => median(some.map(({ held }) => held[name])));
    console.log(`${name}: ${(before / 1e6).toFixed(1)} MB in the second sixth of the time, ${(after / 1e6).toFixed(1)} MB in the last`);
    if (before === 0 || after > before * (1 + ALLOWED.share) + ALLOWED.bytes) fail(`the memory of the ${name} grows`);
  }
  const last = late.at(-1);
  if (last.slot <= early[0].slot || last.state !== 'playing' || last.pages !== 1) fail(`the page shows ${JSON.stringify(last)}`);
  console.log(`${last.slot} slots of a live source leave the memory as it was`);
} finally {
  page?.close();
  if (sender) await stop(sender);
  await stand.end();
}
