// What the page of `tributary stream play --web` in Chromium costs and how soon it follows the viewer: counts, bytes and processor
// time, not pictures a second, which any neighbour on the machine changes. Prints JSON. Fails if a GoP is not whole, over radios without a limit.
// Usage, in a network namespace of its own: node measure.mjs PROGRAM TILES [--seconds S] [--mbps RADIO0,RADIO1] [--low] [--turns N]
//   TILES    a directory that `tributary ingest` made
//   --mbps   the radios' rates towards the player; without it they are as fast as the machine
//   --low    in a browser with too few decoders, which gets the low-resolution stream
import { parseArgs } from 'node:util';
import { PATIENCE, Stand, fail, limit, sleep, used } from './stand.mjs';

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: { seconds: { type: 'string', default: '20' }, mbps: { type: 'string' }, low: { type: 'boolean' }, turns: { type: 'string', default: '0' } },
});
const [program, tiles] = positionals;
const stand = new Stand(program);

const data = (page) => page.locator('main').evaluate((main) => ({ ...main.dataset }));
const facts = (page) => page.locator('dl').first().evaluate((list) => Object.fromEntries([...list.children].map((one) => [one.firstChild.textContent, one.lastChild.textContent])));
const playing = () => stand.status().find((one) => one.role === 'stream play');

/** Milliseconds from a turn by 90° to the finest quality in the middle of the view, each. */
async function turns(page, count) {
  const found = [];
  await page.locator('canvas').focus();
  for (let turn = 1; turn <= count; turn += 1) {
    await sleep(2500);
    const yaw = [0, 90, -180, -90][turn % 4];
    const began = Date.now();
    for (let press = 0; press < 2; press += 1) await page.keyboard.press('Shift+ArrowRight');
    await page.waitForFunction((yaw) => {
      const { yaw: now, middleQuality } = document.querySelector('main').dataset;
      return Math.abs(Math.abs(now) - Math.abs(yaw)) < 1 && middleQuality === '0';
    }, yaw, PATIENCE);
    found.push(Date.now() - began);
  }
  return found;
}

try {
  const keys = stand.keys();
  if (options.mbps) limit(options.mbps.split(',').map(Number));
  const served = await stand.start('stream', 'serve', tiles, '--listen', '10.9.9.1:0', ...keys.server);
  const paths = stand.paths(served.answer.listening[0]).flatMap((path) => ['--path', path]);
  const player = await stand.start('stream', 'play', '--web', '127.0.0.1:0', ...paths, '--wait', '3', ...keys.client);
  await stand.browse();
  const inspector = await stand.browser.newBrowserCDPSession();
  const browser = async () => (await inspector.send('SystemInfo.getProcessInfo')).processInfo.reduce((sum, { cpuTime }) => sum + cpuTime, 0);
  const page = options.low ? (await stand.pageWithDecoders(player.answer.url, 2)).page : (await stand.page()).page;
  if (!options.low) await page.goto(player.answer.url);
  await page.waitForFunction((low) => {
    const { pictures, playsMs, low: lower } = document.querySelector('main').dataset;
    return Number(pictures) > 0 && Number(playsMs) > 0 && (!low || lower === 'true');
  }, options.low ?? false, PATIENCE);
  const { firstPictureMs, playsMs } = await data(page);
  await sleep(3000);

  const at = async () => ({ cpu: { serve: used(served.child.pid), play: used(player.child.pid), browser: await browser() }, now: await data(page), status: playing().so_far, time: Date.now() });
  const before = await at();
  await sleep(1000 * Number(options.seconds));
  const after = await at();
  const passed = (after.time - before.time) / 1000;
  const more = (name) => after.status[name] - before.status[name];
  const pictures = Number(after.now.pictures) - Number(before.now.pictures);
  const share = (name) => Number(((after.cpu[name] - before.cpu[name]) / passed).toFixed(3));
  const cost = after.cpu.browser - before.cpu.browser;
  const shown = await facts(page);
  const result = {
    first_picture_ms: Number(firstPictureMs),
    moving_ms: Number(playsMs),
    seconds: Number(passed.toFixed(1)),
    gops: more('slots'),
    gops_not_whole: more('slots_incomplete'),
    tiles_in_time: more('tiles_in_time'),
    tiles_not_in_time: more('tiles_not_in_time'),
    tiles_left_out: more('tiles_left_out'),
    mbit_s: Number(((8 * more('bytes')) / passed / 1e6).toFixed(3)),
    cores: { serve: share('serve'), play: share('play'), browser: share('browser') },
    panoramas_shown: pictures,
    tile_pictures_decoded: Number(after.now.decoded) - Number(before.now.decoded),
    browser_ms_for_each_panorama: Number(((1000 * cost) / pictures).toFixed(1)),
    since_the_beginning: {
      tile_pictures_decoded_too_late: Number(shown['pictures decoded too late']),
      tiles_that_did_not_decode: Number(shown['tiles that did not decode']),
      tiles_without_a_decoder: Number(shown['tiles without a decoder']),
    },
    turns_ms: await turns(page, Number(options.turns)),
  };
  const { slots, slots_incomplete: incomplete } = playing().so_far;
  console.log(JSON.stringify({ ...result, all: { slots, incomplete } }, null, 1));
  if (!options.mbps && incomplete > 0) fail(`${incomplete} of ${slots} GoPs were not whole when they began`);
} finally {
  await stand.end();
}
