// The page of `tributary dash play --web` in Chromium: compares what the video shows with the source and the page's numbers with
// `tributary status --json`, takes a path away from the decision engine and a radio from a session, and ends the program.
// Usage, in a network namespace of its own: node dash-page.mjs PROGRAM SCREENSHOT
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { accessible } from './axe.mjs';
import { PATIENCE, Stand, fail, ip } from './stand.mjs';
import { pixel, rgb } from './video.mjs';

const [program, screenshot] = process.argv.slice(2);
const stand = new Stand(program);
/** Luma of the title's thirds of 12 s, and blue and red of its two halves. */
const LUMA = [70, 110, 150];
const HALVES = [[60, 200], [150, 110]];

function package_(name, ...options) {
  const video = join(stand.directory, 'film.mp4');
  const [left, right] = HALVES;
  const side = (at) => `if(lt(X,80),${left[at]},${right[at]})`;
  const picture = `geq=lum='70+40*mod(floor(T/4),3)':cb='${side(0)}':cr='${side(1)}'`;
  const colour = ['-color_range', 'tv', '-colorspace', 'bt709', '-color_primaries', 'bt709', '-color_trc', 'bt709'];
  const input = ['-f', 'lavfi', '-i', `color=s=160x90:r=25:d=80,format=yuv444p,${picture},format=yuv420p`];
  execFileSync('ffmpeg', ['-nostdin', '-v', 'error', '-y', ...input, ...colour, '-c:v', 'libx264', '-preset', 'ultrafast', '-crf', '10', video]);
  const title = join(stand.directory, name);
  stand.run('dash', 'package', video, '--out', title, '--ladder', '60,120,240', '--preset', 'ultrafast', ...options);
  return title;
}

/** A path controller with two paths, whose second one can go. */
function controller() {
  const orders = [];
  const state = { up: true };
  const server = createServer((request, answer) => {
    if (request.method !== 'GET') orders.push(`${request.method} ${request.url}`);
    const path = (id, local, rtt_ms, up) => ({ id, local, remote: '10.9.9.1', rtt_ms: up ? rtt_ms : null, random_loss: 0, up, at: Date.now() / 1000 });
    answer.setHeader('content-type', 'application/json');
    answer.end(JSON.stringify({ paths: [path('wifi', '10.9.0.2', 10, true), path('wigig', '10.9.1.2', 12, state.up)] }));
  });
  return new Promise((done) => server.listen(0, '127.0.0.1', () => done({ server, orders, state, url: `http://127.0.0.1:${server.address().port}` })));
}

const shown = (page) => page.locator('.page').evaluate((element) => ({ ...element.dataset }));
const of = (url) => stand.status().find((one) => one.role === 'dash play' && url.includes(one.listening[0].split(':')[1]));

/** Both halves of the video show the source, whichever of its thirds is played. */
async function shows(page) {
  const video = page.locator('video');
  // The controls cover the middle of a video that is pointed at.
  await page.mouse.move(5, 5);
  for (const [half, [cb, cr]] of HALVES.entries()) {
    const found = await pixel(page, video, half === 0 ? 0.25 : 0.75);
    const close = LUMA.some((luma) => rgb(luma, cb, cr).every((value, at) => Math.abs(value - found[at]) <= 14));
    if (!close) fail(`half ${half} of the video shows ${found}, and the source has ${LUMA.map((luma) => rgb(luma, cb, cr)).join(' or ')}`);
  }
}

const at = async (page) => Number((await shown(page)).positionS);
/** Waits until so many seconds more are played. */
async function later(page, seconds) {
  const until = (await at(page)) + seconds;
  const reached = (until) => Number(document.querySelector('.page').dataset.positionS) >= until;
  await page.waitForFunction(reached, until, PATIENCE);
}

/** The page and `tributary status --json` have the same numbers. */
async function same(page, url) {
  for (const until = Date.now() + PATIENCE.timeout; ; ) {
    const [numbers, { player, start_up, ...status }] = [await shown(page), of(url)];
    const said = {
      state: status.state,
      transport: status.transport,
      viewing: status.viewing,
      requests: status.requests,
      continued: status.continued,
      failed: status.failed,
      bytes: status.bytes,
      positionS: player.position_s,
      bufferS: player.buffer_s,
      stalls: player.stalls,
      kbps: player.rung?.kbps ?? '',
      startUpMs: start_up.start_up_ms,
      zeroRtt: start_up.zero_rtt,
    };
    const different = Object.entries(said).filter(([name, value]) => numbers[name] !== String(value));
    if (different.length === 0) return status;
    if (Date.now() > until) fail(`the program and the page differ: ${different.map(([name, value]) => `${name} ${value} and ${numbers[name]}`).join(', ')}`);
  }
}

async function playing(page) {
  await page.getByRole('button', { name: 'Play' }).click();
  await page.locator('.page[data-state=playing]').waitFor(PATIENCE);
  await later(page, 0.5);
  await shows(page);
  const { startUpMs, transport, zeroRtt } = await shown(page);
  console.log(`first picture after ${Number(startUpMs).toFixed(0)} ms over ${transport}${zeroRtt === 'true' ? ', with 0-RTT' : ''}`);
}

async function refused(status, url, request) {
  const answer = await fetch(url, request);
  if (answer.status !== status) fail(`${url} was answered ${answer.status} instead of ${status}`);
}

/** What nobody may ask. */
async function refuses(url) {
  const post = (body, headers = {}) => ({ method: 'POST', body, headers });
  await stand.foreign(`${url}now`);
  await stand.foreign(`${url}title/manifest.mpd`);
  await refused(403, `${url}begin`, post('{}', { origin: 'http://evil.example' }));
  await refused(404, `${new URL(url).origin}/title/manifest.mpd`);
  await refused(400, `${url}report`, post('<b>x</b>'));
  await refused(400, `${url}end`, post('{"viewing":-1}'));
  await refused(413, `${url}report`, post(' '.repeat(5000)));
  await refused(404, `${url}title/absent`);
  await refused(405, `${url}title/manifest.mpd`, post(''));
  const file = await fetch(`${url}title/manifest.mpd`);
  if (!file.headers.get('content-security-policy').includes('sandbox')) fail('a file of the server could be a page');
}

/** The engine loses a path, and later the viewer comes back. */
async function engine(title, keys) {
  const served = await stand.start('dash', 'serve', title, '--listen', '10.9.9.1:0', '--quic', '10.9.9.1:0', ...keys.server);
  const { http: [address], quic: [quic] } = served.answer.listening;
  const paths = await controller();
  const log = join(stand.directory, 'viewing.jsonl');
  const steering = ['--transport', 'engine', '--controller', paths.url, '--quic', quic.split(':')[1]];
  const player = await stand.start('dash', 'play', `http://${address}/manifest.mpd`, '--web', '127.0.0.1:0', ...steering, '--json-events', log, ...keys.client);
  const { url } = player.answer;
  const { page, complaints, asked } = await stand.page();
  await page.goto(url);
  await playing(page);
  if ((await shown(page)).transport !== 'mptcp') fail(`it began on ${(await shown(page)).transport}`);

  ip('addr', 'del', '10.9.1.2/24', 'dev', 'radio1');
  paths.state.up = false;
  await page.locator('li[data-path=wigig][data-up=false][data-used=false]').waitFor(PATIENCE);
  await page.locator('li[data-event=decision]', { hasText: 'remove wigig (it cannot be reached)' }).waitFor(PATIENCE);
  await page.locator('.page[data-transport=quic]').waitFor(PATIENCE);
  await later(page, 3);
  await shows(page);
  if (!paths.orders.some((order) => order.startsWith('DELETE /v1/paths/wigig'))) fail(`the controller was told ${paths.orders}`);
  const said = readFileSync(log, 'utf8').trim().split('\n').map((line) => JSON.parse(line));
  const decisions = said.filter((one) => one.event === 'decision').map((one) => one.decision).reverse();
  const seen = await page.locator('li[data-event=decision]').allInnerTexts();
  if (decisions.length !== seen.length || decisions.some((words, index) => !seen[index].includes(words))) fail(`the log has ${decisions}, the page ${seen}`);
  console.log(`the page: ${seen.reverse().join('\n          ')}`);
  await page.screenshot({ path: screenshot, fullPage: true });

  const dashboard = await stand.start('status', '--web');
  const board = await stand.page();
  await board.page.goto(dashboard.answer.url);
  await board.page.locator('article[data-role="dash play"] li[data-event=decision]', { hasText: 'move to QUIC over wifi' }).waitFor(PATIENCE);
  await accessible(board.page, 'the dashboard with a viewing');
  await board.page.close();

  await page.locator('video').evaluate((video) => video.pause());
  await page.locator('.page[data-state=paused]').waitFor(PATIENCE);
  await same(page, url);
  await accessible(page, 'dash play --web');
  await refuses(url);

  // A viewer who comes back has a session ticket.
  await page.getByRole('button', { name: 'Stop and disconnect' }).click();
  await page.locator('.page[data-state=waiting]').waitFor(PATIENCE);
  await playing(page);
  const { transport, zeroRtt } = await shown(page);
  if (transport !== 'quic' || zeroRtt !== 'true') fail(`the second viewing began on ${transport}, 0-RTT: ${zeroRtt}`);

  const other = await stand.page();
  await other.page.goto(url);
  await playing(other.page);
  await page.locator('[role=alert]', { hasText: 'another page plays this title now' }).waitFor(PATIENCE);
  await other.page.close();
  player.child.kill();
  await page.locator('.lost', { hasText: 'does not answer' }).waitFor(PATIENCE);
  const others = complaints.filter((text) => !/ERR_|409|blob:/.test(text));
  if (others.length > 0) fail(others.join('; '));
  if ([...asked].filter((host) => host !== '').length !== 1) fail(`requests to ${[...asked].join(', ')}`);
  await page.close();
  served.child.kill();
  paths.server.close();
  ip('addr', 'add', '10.9.1.2/24', 'dev', 'radio1');
}

/** A session loses a radio; the title is one file for each quality. */
async function session(title, keys) {
  const served = await stand.start('dash', 'serve', title, '--listen', '10.9.9.1:0', '--session', '10.9.9.1:0', ...keys.server);
  const { http: [address], session: [sessions] } = served.answer.listening;
  const radios = stand.paths(sessions);
  const paths = radios.flatMap((radio) => ['--path', radio]);
  const player = await stand.start('dash', 'play', `http://${address}/manifest.mpd`, '--web', '127.0.0.1:0', '--transport', 'fbdt', ...paths, ...keys.client);
  const { url } = player.answer;
  const { page } = await stand.page();
  await page.goto(url);
  await playing(page);
  ip('addr', 'del', '10.9.0.2/24', 'dev', 'radio0');
  const row = page.locator(`li[data-radio="${radios[0]}"][data-state=removed]`);
  await row.waitFor(PATIENCE);
  const { cause } = of(url).radios.find((radio) => radio.radio === radios[0]);
  if (!cause || !(await row.innerText()).includes(cause)) fail(`the program says "${cause}", the page "${await row.innerText()}"`);
  await later(page, 5);
  await shows(page);
  await page.locator('video').evaluate((video) => video.pause());
  await page.locator('.page[data-state=paused]').waitFor(PATIENCE);
  const { failed } = await same(page, url);
  if (failed !== 0) fail(`${failed} downloads failed`);
}

try {
  const keys = stand.keys();
  await stand.browse();
  await engine(package_('segments'), keys);
  await session(package_('single', '--single-file'), keys);
  console.log('the page of dash play --web shows the source and what the engine decides');
} finally {
  await stand.end();
}
