// The page of `tributary stream play --web` in Chromium: compares what the canvas shows with the source, turns the view, and takes
// a radio, the server and the program away. Usage, in a network namespace of its own: node play-page.mjs PROGRAM SCREENSHOT
import { once } from 'node:events';
import { cpSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { accessible } from './axe.mjs';
import { PATIENCE, Stand, fail, ip } from './stand.mjs';
import { decoded, listen, plays, silent } from './sound.mjs';
import { TONE_HZ, appears, expected, shows, source } from './video.mjs';

const [program, screenshot] = process.argv.slice(2);
const stand = new Stand(program);

const number = async (page, name) => Number(await page.locator('main').getAttribute(`data-${name}`));
/** Waits until a number of the page is above a bound. */
const above = (page, name, bound) =>
  page.waitForFunction(([name, bound]) => Number(document.querySelector('main').dataset[name]) > bound, [name, bound], PATIENCE);

/** What the page says to a browser that lacks something. */
async function lacking(url, script, words) {
  const page = await stand.browser.newPage();
  await page.addInitScript(script);
  await page.goto(url);
  await page.locator('.over', { hasText: words }).waitFor(PATIENCE);
  await page.close();
}

try {
  const tiles = source(stand);
  const keys = stand.keys();
  const served = await stand.start('stream', 'serve', tiles, '--listen', '10.9.9.1:0', ...keys.server);
  let server = served.child;
  const [address] = served.answer.listening;
  const radios = stand.paths(address);
  const paths = radios.flatMap((radio) => ['--path', radio]);
  const player = await stand.start('stream', 'play', '--web', '127.0.0.1:0', ...paths, '--wait', '3', ...keys.client);
  const { url } = player.answer;
  await stand.browse();
  const { page, complaints, asked } = await stand.page();
  await page.addInitScript(listen);
  await page.goto(url);
  await above(page, 'pictures', 0);
  await above(page, 'playsMs', 0);
  console.log(`first picture after ${await number(page, 'first-picture-ms')} ms, moving after ${await number(page, 'plays-ms')} ms`);
  await shows(page, expected(tiles, 256, 128));

  // The browser plays no sound before a click or a key; then it is the source's, until the button, reached by keys, mutes it.
  if ((await number(page, 'sound-slots')) !== 0) fail('there was sound before the viewer did anything');
  const speaker = page.locator('button[name=sound]');
  await speaker.filter({ hasText: 'click or press a key' }).waitFor(PATIENCE);
  await page.locator('canvas').focus();
  await page.keyboard.press('Home');
  await page.locator('main[data-sound=playing]').waitFor(PATIENCE);
  await above(page, 'soundSlots', 1);
  const [played, tone] = [await plays(page, TONE_HZ), await decoded(page)];
  if (Math.abs(tone - TONE_HZ) > 6) fail(`the page decodes a tone of ${tone} Hz instead of ${TONE_HZ} Hz`);
  console.log(`the page decodes a tone of ${tone.toFixed(1)} Hz and plays one of ${played.toFixed(1)} Hz`);
  await page.locator('button[name=full]').focus();
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await page.locator('main[data-sound=muted]').waitFor(PATIENCE);
  await silent(page);
  await page.keyboard.press('Enter');
  await plays(page, TONE_HZ);

  await page.locator('canvas').focus();
  for (let press = 0; press < 6; press += 1) await page.keyboard.press('ArrowRight');
  const turned = Date.now();
  await page.locator('main[data-yaw="90"][data-middle-quality="0"]').waitFor(PATIENCE);
  console.log(`turned by 90°, and the finest quality in the middle, after ${Date.now() - turned} ms`);
  await shows(page, expected(tiles, 384, 128));
  const program_ = stand.status().find((one) => one.role === 'stream play');
  const shown = await page.locator('.map span').evaluateAll((all) => all.map((one) => Number(one.dataset.quality)));
  if (shown.length !== program_.shown.tiles.length) fail(`${shown.length} tiles instead of ${program_.shown.tiles.length}`);

  const dashboard = await stand.start('status', '--web');
  const board = await stand.page({ width: 1180, height: 1000 });
  await board.page.goto(dashboard.answer.url);
  const tile = board.page.locator('article[data-role="stream play"] .map span');
  await tile.first().waitFor(PATIENCE);
  if ((await tile.count()) !== 8) fail(`the dashboard shows ${await tile.count()} tiles instead of 8`);

  // One radio goes, and the other carries on.
  ip('addr', 'del', '10.9.0.2/24', 'dev', 'radio0');
  const row = page.locator(`li[data-radio="${radios[0]}"][data-state=removed]`);
  await row.waitFor(PATIENCE);
  const cause = stand.status().find((one) => one.role === 'stream play').radios.find((one) => one.radio === radios[0]).cause;
  if (!cause || !(await row.innerText()).includes(cause)) fail(`the program says "${cause}", the page "${await row.innerText()}"`);
  await board.page.locator('.events li', { hasText: cause }).first().waitFor(PATIENCE);
  await board.page.close();
  await above(page, 'slot', (await number(page, 'slot')) + 3);
  await shows(page, expected(tiles, 384, 128));
  await plays(page, TONE_HZ);
  await page.screenshot({ path: screenshot });
  await accessible(page, 'stream play --web');
  ip('addr', 'add', '10.9.0.2/24', 'dev', 'radio0');

  // The server goes and comes back.
  const viewing = await number(page, 'viewing');
  server.kill('SIGKILL');
  await page.locator('main[data-state=lost]').waitFor(PATIENCE);
  console.log(`the page: ${await page.locator('.over').innerText()}`);
  server = (await stand.start('stream', 'serve', tiles, '--listen', address, ...keys.server)).child;
  await above(page, 'viewing', viewing);
  await page.locator('main[data-state=playing]').waitFor(PATIENCE);
  await shows(page, expected(tiles, 384, 128));

  await stand.foreign(`${url}feed`);
  const forged = await fetch(`${url}look`, { method: 'POST', headers: { origin: 'http://evil.example' }, body: '{}' });
  if (forged.status !== 403) fail(`a foreign page's request was answered ${forged.status}`);
  await lacking(url, 'delete window.VideoDecoder', 'WebCodecs');
  await lacking(url, 'HTMLCanvasElement.prototype.getContext = () => null', 'WebGL 2');

  // The first pictures of some tiles are garbage.
  const damaged = (await stand.page()).page;
  await damaged.addInitScript(() => {
    const Chunk = window.EncodedVideoChunk;
    let left = 5;
    window.EncodedVideoChunk = class extends Chunk {
      constructor(init) {
        const garbage = left > 0 && init.type === 'key';
        if (garbage) left -= 1;
        super(garbage ? { ...init, data: init.data.map((byte, at) => byte ^ (at * 91)) } : init);
      }
    };
  });
  await damaged.goto(url);
  await above(damaged, 'corrupt', 0);
  await damaged.locator('.events li', { hasText: 'does not decode' }).first().waitFor(PATIENCE);
  await above(damaged, 'pictures', 25);
  await damaged.close();

  // With two decoders for eight tiles there is the low-resolution stream, for all pages.
  const few = await stand.pageWithDecoders(url, 2);
  await few.page.locator('main[data-low=true]').waitFor(PATIENCE);
  await few.page.locator('.low', { hasText: 'tiles cannot be decoded here: low resolution' }).waitFor(PATIENCE);
  await appears(few.page, few.page.locator('canvas'));
  await shows(few.page, expected(tiles, 256, 128));
  await page.locator('main[data-low=true]').waitFor(PATIENCE);
  const told = stand.status().find((one) => one.role === 'stream play');
  if (!told.low_resolution || told.shown.tiles.length !== 1) fail(`the program says ${JSON.stringify(told)}`);
  if (few.complaints.length > 0) fail(few.complaints.join('; '));
  await few.page.close();

  // A browser without the codec has no decoder at all, and neither stream is shown: the page says what to do, and the others go on.
  const none = await stand.pageWithDecoders(url, 0);
  await none.page.locator('.low', { hasText: 'not even the low-resolution stream can be decoded here; open the page in another browser' }).waitFor(PATIENCE);
  await none.page.close();
  await shows(page, expected(tiles, 384, 128));

  // Without that stream the page says what to do.
  const only = join(stand.directory, 'only-tiles');
  cpSync(tiles, only, { recursive: true });
  rmSync(join(only, 'low'), { recursive: true });
  const other = await stand.start('stream', 'serve', only, '--listen', '10.9.9.1:0', ...keys.server);
  const tiled = await stand.start('stream', 'play', '--web', '127.0.0.1:0', '--path', stand.paths(other.answer.listening[0])[0], ...keys.client);
  const helpless = await stand.pageWithDecoders(tiled.answer.url, 2);
  await helpless.page.locator('.low', { hasText: 'make it again with tributary ingest' }).waitFor(PATIENCE);
  await helpless.page.close();
  tiled.child.kill();

  // The program stops, goes on, and ends.
  player.child.kill('SIGSTOP');
  await page.locator('.over', { hasText: 'nothing was heard' }).waitFor(PATIENCE);
  player.child.kill('SIGCONT');
  await page.locator('main[data-state=playing]').waitFor(PATIENCE);
  await shows(page, expected(tiles, 384, 128));
  const ended = once(player.child, 'exit');
  player.child.kill();
  await page.locator('.over', { hasText: 'does not answer' }).waitFor(PATIENCE);
  await ended;
  // The next one at the same address has another secret; the page says what to do.
  await stand.start('stream', 'play', '--web', new URL(url).host, ...paths, '--wait', '3', ...keys.client);
  await page.locator('.over', { hasText: 'use the URL that the program printed' }).waitFor(PATIENCE);
  const others = complaints.filter((text) => !/ERR_|404/.test(text));
  if (others.length > 0) fail(others.join('; '));
  if (asked.size !== 1) fail(`requests to ${[...asked].join(', ')}`);
  console.log('the page of stream play --web shows the source, and says what is missing');
} finally {
  await stand.end();
}
