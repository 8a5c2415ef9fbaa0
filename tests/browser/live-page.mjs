// A live source in the page of `tributary stream play --web` in Chromium: a sender pushes a stream whose every picture says when it was
// made; the page shows the stream while it comes, a little later than it was made, also after the sender was silent or away, and in low
// resolution. Usage, in a network namespace of its own: node live-page.mjs PROGRAM SCREENSHOT
import { COLOURS, GOP_S, ROUND_S, SOURCE, resident, send, stop } from './sender.mjs';
import { PATIENCE, Stand, fail, sleep } from './stand.mjs';
import { appears, pixel } from './video.mjs';

const [program, screenshot] = process.argv.slice(2);
const stand = new Stand(program);
/** Slots that are watched: ten seconds. */
const SLOTS = 10 / GOP_S;
/**
 * What is shown may be this much older than the picture that the source makes now. The guide promises 2.5 to 3.5 GoPs, which is 1.75 s, and the
 * time of encoding; sender, SRT, decoding and drawing come on top, on a machine that does all of it at the same time. A page that
 * falls behind has no bound.
 */
const MOST_DELAY_S = 8;
/** Memory by which the programs may grow while they are watched: fewer bytes than a minute of the pictures has. */
const MOST_GROWTH = 96 << 20;

const data = (page) => page.locator('main').evaluate((main) => ({ ...main.dataset }));
const live = () => stand.status().find((one) => one.role === 'stream serve').live;

/** The tenth of a second of a round that the canvas shows. */
async function shown(page, canvas) {
  const found = await pixel(page, canvas);
  const far = COLOURS.map((colour) => Math.max(...colour.map((value, at) => Math.abs(value - found[at]))));
  const least = Math.min(...far);
  if (least > 10) fail(`the canvas shows ${found}, and the nearest colour of the source is ${COLOURS[far.indexOf(least)]}`);
  return far.indexOf(least);
}

/** Watches so many slots; returns how much older than the present what is shown was, in seconds, sorted. */
async function watch(page, canvas, slots) {
  const first = await data(page);
  const until = Date.now() + PATIENCE.timeout;
  const [delays, tenths] = [[], []];
  let now = first;
  while (Number(now.slot) < Number(first.slot) + slots) {
    // real time: the pictures say when they were made. Taking the canvas's picture counts for nothing.
    const asked_s = Date.now() / 1000;
    const tenth = await shown(page, canvas);
    delays.push((asked_s - tenth / 10 + 100 * ROUND_S) % ROUND_S);
    if (tenths.at(-1) !== tenth) tenths.push(tenth);
    if (Date.now() > until) fail(`after slot ${first.slot} only slot ${now.slot} was shown: ${JSON.stringify(now)}`);
    now = await data(page);
  }
  const pictures = Number(now.pictures) - Number(first.pictures);
  delays.sort((a, b) => a - b);
  const at = (part) => delays[Math.floor(part * (delays.length - 1))].toFixed(2);
  console.log(`${slots} slots: ${pictures} pictures shown, ${at(0.05)} to ${at(0.95)} s after they were made (of 90 % of ${delays.length} looks), half of them after ${at(0.5)} s`);
  // Each slot is decoded and shown, even if a slow machine leaves out most of its pictures.
  if (pictures < slots) fail(`only ${pictures} pictures of ${slots} slots were shown`);
  // A tenth is followed by a later one: less than half a round ahead. How many are seen depends on the machine. One tenth back may be a
  // misreading: it is 9 of 255 darker, and the colour is read from a lossy picture.
  const ahead = (tenth, at) => (tenth - tenths[at] + 10 * ROUND_S) % (10 * ROUND_S);
  const back = tenths.slice(1).filter((tenth, at) => ahead(tenth, at) > 5 * ROUND_S && ahead(tenth, at) < 10 * ROUND_S - 1);
  if (back.length > 0) fail(`the canvas went back in time, to ${back.join(' ')} in ${tenths.join(' ')}`);
  const seconds = new Set(tenths.map((tenth) => Math.floor(tenth / 10)));
  if (seconds.size < (slots * GOP_S) / 3) fail(`of the source's seconds only ${[...seconds].join(' ')} were shown`);
  if (Number(at(0.5)) > MOST_DELAY_S) fail(`the page is ${at(0.5)} s behind the source`);
  return delays;
}

/** Until the server's state of the source is this one. */
async function becomes(state) {
  const until = Date.now() + PATIENCE.timeout;
  while (live().state !== state) {
    if (Date.now() > until) fail(`the source is not ${state}: ${JSON.stringify(live())}`);
    await sleep(100);
  }
}

const PAUSED = 'the live source sends nothing: its last picture stays until it goes on';

/** The source pauses; the page says so and keeps its last picture. */
async function paused(page, canvas, state) {
  await becomes(state);
  await page.locator('.low', { hasText: PAUSED }).waitFor(PATIENCE);
  // Until what was on its way has been shown.
  const until = Date.now() + PATIENCE.timeout;
  let [before, last] = [-1, -2];
  while (before !== last) {
    if (Date.now() > until) fail('the last picture does not stay');
    await sleep(1000);
    [before, last] = [last, await shown(page, canvas)];
  }
}

const senders = [];
try {
  const keys = stand.keys();
  senders.push(send());
  const served = await stand.start('stream', 'serve', ...SOURCE, '--listen', '10.9.9.1:0', ...keys.server);
  const [address] = served.answer.listening;
  const paths = stand.paths(address).flatMap((path) => ['--path', path]);
  const player = await stand.start('stream', 'play', '--web', '127.0.0.1:0', ...paths, '--wait', '3', ...keys.client);
  await stand.browse();
  const { page, complaints } = await stand.page();
  await page.goto(player.answer.url);
  const canvas = page.locator('canvas');
  await canvas.waitFor(PATIENCE);
  await page.waitForFunction(() => Number(document.querySelector('main').dataset.pictures) > 0, undefined, PATIENCE);
  await appears(page, canvas);
  console.log(`first picture after ${(await data(page)).firstPictureMs} ms`);

  // Into the middle of a tile: at the corner of four, one that is late would mix colours.
  await canvas.focus();
  for (const key of ['ArrowRight', 'ArrowUp']) await page.keyboard.press(key);
  await page.locator('main[data-yaw="15"]').waitFor(PATIENCE);

  const programs = [served.child, player.child];
  await watch(page, canvas, SLOTS);
  const before = programs.map(({ pid }) => resident(pid));
  await watch(page, canvas, SLOTS);
  console.log(`the server: ${JSON.stringify(live())}`);
  await page.screenshot({ path: screenshot });

  // The sender stops and goes on, without a word.
  senders[0].child.kill('SIGSTOP');
  await page.locator('.low', { hasText: PAUSED }).waitFor(PATIENCE);
  senders[0].child.kill('SIGCONT');
  await page.locator('main[data-paused=false]').waitFor(PATIENCE);

  // The sender leaves: the last picture stays. Another one comes, and the page goes on by itself.
  await stop(senders[0]);
  await paused(page, canvas, 'away');
  const last = Number((await data(page)).slot);
  senders.push(send());
  await page.waitForFunction((slot) => Number(document.querySelector('main').dataset.slot) > slot, last, PATIENCE);
  await page.locator('main[data-paused=false]').waitFor(PATIENCE);
  await watch(page, canvas, SLOTS);
  if ((await data(page)).state !== 'playing') fail('the page does not play');

  const grown = programs.map((child, at) => resident(child.pid) - before[at]);
  console.log(`memory of server and player: ${before.join(' and ')} bytes; since then ${grown.join(' and ')} more`);
  if (grown.some((bytes) => bytes > MOST_GROWTH)) fail(`the programs grew by ${grown.join(' and ')} bytes`);

  // With two decoders for eight tiles there is the low-resolution stream, for all pages.
  const few = await stand.pageWithDecoders(player.answer.url, 2);
  await few.page.locator('main[data-low=true]').waitFor(PATIENCE);
  await few.page.locator('.low', { hasText: 'tiles cannot be decoded here: low resolution' }).waitFor(PATIENCE);
  const small = few.page.locator('canvas');
  await appears(few.page, small);
  await watch(few.page, small, SLOTS / 2);
  await few.page.close();

  if (complaints.length > 0) fail(complaints.join('; '));
  console.log('the page shows a live source, and goes on when its sender comes back');
} finally {
  for (const sender of senders) {
    sender.ended = true;
    sender.child.kill('SIGKILL');
  }
  await stand.end();
}
