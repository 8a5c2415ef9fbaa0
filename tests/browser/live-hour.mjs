// An hour, or so many seconds, of a live source in the page of `tributary stream play --web` in Chromium: the memory of the server, of
// the player and of the page stays the same, also when the sender leaves and comes back. Prints a line of JSON each minute. Usage, in a
// network namespace of its own: node live-hour.mjs PROGRAM [SECONDS]
import { PATIENCE, Stand, fail, sleep } from './stand.mjs';
import { SOURCE, resident, send, stop } from './sender.mjs';

const [program, seconds = '3600'] = process.argv.slice(2);
const stand = new Stand(program);
/** The sender leaves this often. */
const ROUND_S = 600;
/** What a program may hold more at the end, as a share of what it held early, and in bytes; a leak of a picture a minute is more. */
const ALLOWED = { share: 0.1, bytes: 8 << 20 };

const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];

let sender;
try {
  const keys = stand.keys();
  sender = send();
  const served = await stand.start('stream', 'serve', ...SOURCE, '--listen', '10.9.9.1:0', ...keys.server);
  const paths = stand.paths(served.answer.listening[0]).flatMap((path) => ['--path', path]);
  const player = await stand.start('stream', 'play', '--web', '127.0.0.1:0', ...paths, '--wait', '3', ...keys.client);
  await stand.browse();
  // Small: drawing in software costs more than everything else.
  const { page, complaints } = await stand.page({ width: 480, height: 270 });
  await page.goto(player.answer.url);
  await page.waitForFunction(() => Number(document.querySelector('main').dataset.pictures) > 0, undefined, PATIENCE);
  const inspector = await page.context().newCDPSession(page);
  await inspector.send('Performance.enable');
  const processes = await (await stand.browser.newBrowserCDPSession()).send('SystemInfo.getProcessInfo');
  const renderers = processes.processInfo.filter(({ type }) => type === 'renderer').map(({ id }) => id);

  /** Bytes that each end holds, and the slot that the page shows. */
  const sample = async () => {
    await inspector.send('HeapProfiler.collectGarbage');
    const { metrics } = await inspector.send('Performance.getMetrics');
    const { slot, state } = await page.locator('main').evaluate((main) => ({ ...main.dataset }));
    const held = {
      server: resident(served.child.pid),
      player: resident(player.child.pid),
      renderer: Math.max(...renderers.map(resident)),
      scripts: metrics.find(({ name }) => name === 'JSHeapUsedSize').value,
    };
    return { slot: Number(slot), state, held };
  };

  const began = Date.now();
  const samples = [];
  let left = began;
  // real time: what is tested is that an hour of it changes nothing.
  while (Date.now() < began + 1000 * Number(seconds)) {
    await sleep(Math.min(60_000, 50 * Number(seconds)));
    const now = { minute: (Date.now() - began) / 60_000, ...(await sample()) };
    console.log(JSON.stringify(now));
    samples.push(now);
    if (Date.now() > left + 1000 * ROUND_S) {
      left = Date.now();
      await stop(sender);
      await page.locator('main[data-paused=true]').waitFor(PATIENCE);
      sender = send();
      await page.locator('main[data-paused=false]').waitFor(PATIENCE);
    }
  }
  // What fills at the beginning, such as caches of the allocator, is not looked at.
  const part = Math.ceil(samples.length / 6);
  const [early, late] = [samples.slice(part, 2 * part), samples.slice(-part)];
  for (const name of Object.keys(early[0].held)) {
    const [before, after] = [early, late].map((some) => median(some.map(({ held }) => held[name])));
    console.log(`${name}: ${(before / 1e6).toFixed(1)} MB in the second sixth of the time, ${(after / 1e6).toFixed(1)} MB in the last`);
    if (after > before * (1 + ALLOWED.share) + ALLOWED.bytes) fail(`the memory of the ${name} grows`);
  }
  if (late.at(-1).slot <= early[0].slot || late.at(-1).state !== 'playing') fail(`the page shows ${JSON.stringify(late.at(-1))}`);
  if (complaints.length > 0) fail(complaints.join('; '));
  console.log(`${samples.at(-1).slot} slots of a live source leave the memory as it was`);
} finally {
  if (sender) await stop(sender);
  await stand.end();
}
