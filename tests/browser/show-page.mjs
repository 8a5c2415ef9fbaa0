// The page of `tributary-lab show` in Chromium: compares what both sides show with `tributary status --json` and with the source while
// radios are blocked and dragged, and asks for what is refused. Usage, in a network namespace of its own: node show-page.mjs PROGRAM
// SCREENSHOT, with tributary-lab beside PROGRAM.
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { accessible } from './axe.mjs';
import { PATIENCE, Stand, fail, legends, sleep } from './stand.mjs';
import { appears, expected, shows, source } from './video.mjs';

const [program, screenshot] = process.argv.slice(2);
const lab = `${program}-lab`;
const stand = new Stand(program);
const SIDES = ['tributary', 'mptcp'];
const RADIOS = ['wifi', 'wigig'];

function scenario() {
  const file = join(stand.directory, 'two.toml');
  const path = (name, rate) => `[[path]]\nname = "${name}"\ndown.rate = "${rate} Mbit/s"\ndown.queue = "20 kB"\n`;
  writeFileSync(file, `name = "two"\ndescription = "two radios"\nduration = "60 s"\nrtt = "10 ms"\n${path('wifi', 1)}${path('wigig', 3)}`);
  return file;
}

/** Of a side, the player's own status with the names of the page's attributes. */
function said(sockets) {
  const player = stand.status(sockets).find((one) => one.role === 'stream play') ?? fail('there is no player');
  const { quality, so_far, shown, state } = player;
  return {
    state,
    slot: shown?.slot,
    slots: so_far.slots,
    slotsIncomplete: so_far.slots_incomplete,
    notInTime: so_far.tiles_not_in_time,
    leftOut: so_far.tiles_left_out,
    bytes: so_far.bytes,
    psnr: quality?.viewport_psnr_db ?? '',
    psnrSlot: quality?.slot ?? '',
  };
}

/** The page shows the numbers of the player, both at the same slot. */
async function same(page, side, sockets) {
  const until = Date.now() + PATIENCE.timeout;
  for (;;) {
    const program_ = said(sockets);
    const shown = await page.locator(`[data-side=${side}]`).evaluate((section) => ({ ...section.dataset }));
    // The quality of a slot is known while it is shown.
    if (shown.slot === String(program_.slot) && shown.psnrSlot === String(program_.psnrSlot)) {
      for (const [name, value] of Object.entries(program_)) {
        if (shown[name] !== String(value)) fail(`${side}: the player says ${name} ${value}, the page ${shown[name]}`);
      }
      return program_;
    }
    if (Date.now() > until) fail(`${side}: the page shows slot ${shown.slot}, the player ${program_.slot}`);
  }
}

const frame = (page, side) => page.frameLocator(`[data-side=${side}] iframe`);
const canvas = (page, side) => frame(page, side).locator('canvas');
const radio = (page, name) => page.locator(`.radio[data-radio=${name}]`);

/** Waits until both players have begun so many slots more. */
async function later(page, slots) {
  for (const side of SIDES) {
    const before = Number(await page.locator(`[data-side=${side}]`).getAttribute('data-slots'));
    const enough = ([side, slots]) => Number(document.querySelector(`[data-side=${side}]`).dataset.slots) >= slots;
    await page.waitForFunction(enough, [side, before + slots], PATIENCE);
  }
}

/** The links of both networks towards the client, by radio. */
async function links(url) {
  const now = await (await fetch(`${url}now`)).json();
  return now.sides.map((side) => Object.fromEntries(RADIOS.map((name) =>
    [name, side.links.filter((link) => link.path === name)])));
}

async function refused(status, words, ...request) {
  const answer = await fetch(...request);
  const text = await answer.text();
  if (answer.status !== status || !text.includes(words)) fail(`${request[0]} was answered ${answer.status}: ${text}`);
}

/** Everything that nobody may ask, or nobody can. */
async function refuses(url) {
  const { origin } = new URL(url);
  const post = (body, headers = {}) => ({ method: 'POST', body, headers });
  const block = JSON.stringify({ path: 'wigig', blocked: true });
  await refused(404, '', `${origin}/`);
  await refused(404, '', `${origin}/now`);
  await refused(404, '', `${origin}/change`, post(block));
  await refused(404, '', `${origin}/tributary/`);
  await refused(404, '', `${url}quic/`);
  await refused(403, 'another origin', `${url}change`, post(block, { origin: 'http://evil.example' }));
  await refused(400, 'mars', `${url}change`, post(JSON.stringify({ path: 'mars', blocked: true })));
  await refused(400, 'rate_mbps', `${url}change`, post(JSON.stringify({ path: 'wigig', rate_mbps: -1 })));
  await refused(400, 'path', `${url}change`, post(JSON.stringify({ blocked: true })));
  await refused(400, 'no change', `${url}change`, post('<b>x</b>'));
  await refused(413, 'too long', `${url}change`, post(' '.repeat(5000)));
  await stand.foreign(`${url}now`);
  await stand.foreign(`${url}tributary/feed`);
  const policies = [['', "frame-ancestors 'none'"], ['mptcp/', "frame-ancestors 'self'"]];
  for (const [path, policy] of policies) {
    const has = (await fetch(`${url}${path}`)).headers.get('content-security-policy');
    if (has !== policy) fail(`/${path} has the policy ${has}`);
  }
}

/** Records the page, and returns the number of pictures and of different ones. */
function record(file, tiles) {
  const video = join(stand.directory, 'stand.mp4');
  execFileSync(lab, ['show', file, '--tiles', tiles, '--record', video, '--seconds', '6'], { stdio: ['ignore', 'ignore', 'inherit'] });
  const text = execFileSync('ffmpeg', ['-nostdin', '-v', 'error', '-i', video, '-f', 'framemd5', '-'], { encoding: 'utf8' });
  const sums = text.trim().split('\n').filter((line) => !line.startsWith('#')).map((line) => line.split(',').at(-1));
  return [sums.length, new Set(sums).size];
}

try {
  const [tiles, file] = [source(stand), scenario()];
  const started = await stand.startOf(lab, 'show', file, '--tiles', tiles);
  const { url, sockets } = started.answer;
  await stand.browse();
  const { page, complaints, asked } = await stand.page({ width: 1280, height: 1180 });
  await page.goto(url);
  for (const side of SIDES) {
    await frame(page, side).locator('main[data-state=playing]').waitFor(PATIENCE);
    await appears(page, canvas(page, side));
    await shows(page, expected(tiles, 256, 128), canvas(page, side));
    await same(page, side, sockets[side]);
  }

  // The head of one turns that of the other.
  await canvas(page, 'tributary').focus();
  for (let press = 0; press < 6; press += 1) await page.keyboard.press('ArrowRight');
  for (const side of SIDES) {
    await frame(page, side).locator('main[data-yaw="90"]').waitFor(PATIENCE);
    await shows(page, expected(tiles, 384, 128), canvas(page, side));
  }

  // A click blocks a radio of both networks; the session carries on over the other one.
  await page.getByRole('button', { name: 'Block wigig' }).click();
  await page.locator('.radio[data-radio=wigig][data-blocked=true]').waitFor(PATIENCE);
  for (const { wigig, wifi } of await links(url)) {
    if (!wigig.every((link) => link.blocked) || wifi.some((link) => link.blocked)) fail('not wigig alone is blocked');
  }
  await page.locator('[data-side=tributary] .radios li', { hasText: 'wigig' }).locator('.state:not(.up)').waitFor(PATIENCE);
  await later(page, 3);
  await shows(page, expected(tiles, 384, 128), canvas(page, 'tributary'));
  const ours = await same(page, 'tributary', sockets.tributary);
  const theirs = await same(page, 'mptcp', sockets.mptcp);
  console.log(`incomplete GoPs with a blocked radio: ${ours.slotsIncomplete} of ${ours.slots} and ${theirs.slotsIncomplete} of ${theirs.slots}`);
  await page.mouse.move(5, 5);
  await page.screenshot({ path: screenshot, fullPage: true });
  await page.emulateMedia({ colorScheme: 'dark' });
  await sleep(1500);
  await page.screenshot({ path: screenshot.replace('.png', '-dark.png'), fullPage: true });
  await legends(page);
  await accessible(page, 'the stand');

  // The keyboard lets it through again, and drags the other one.
  await page.getByRole('button', { name: 'Block wigig' }).focus();
  await page.keyboard.press('Space');
  await page.locator('.radio[data-radio=wigig][data-blocked=false]').waitFor(PATIENCE);
  await page.locator('[data-side=tributary] .radios li', { hasText: 'wigig' }).locator('.state.up').waitFor(PATIENCE);
  const slider = page.getByRole('slider', { name: 'Rate of wifi' });
  await slider.focus();
  for (let press = 0; press < 3; press += 1) await page.keyboard.press('ArrowLeft');
  const chosen = Number(await slider.inputValue());
  if (!(chosen > 0 && chosen < 1)) fail(`the slider is at ${chosen} Mbit/s`);
  const dragged = async () => (await links(url)).every(({ wifi }) => wifi.every((link) => Math.abs(link.rate_mbps - chosen) < 1e-4));
  for (const until = Date.now() + PATIENCE.timeout; !(await dragged()); ) if (Date.now() > until) fail('the radios do not follow the slider');
  await page.locator(`.radio[data-radio=wifi][data-rate="${chosen}"]`).waitFor(PATIENCE);
  await radio(page, 'wifi').getByRole('button', { name: "The scenario's rate" }).click();
  await page.locator('.radio[data-radio=wifi][data-rate=""]').waitFor(PATIENCE);
  for (const { wifi } of await links(url)) if (wifi[0].rate_mbps !== 1) fail(`wifi has ${wifi[0].rate_mbps} Mbit/s`);

  // The measured quality of both sides is the players' own.
  for (const side of SIDES) {
    const section = page.locator(`[data-side=${side}]:not([data-psnr=""])`);
    await section.waitFor(PATIENCE);
    const { psnr } = await section.evaluate((element) => ({ ...element.dataset }));
    if (!(Number(psnr) > 15 && Number(psnr) < 100)) fail(`${side}: a viewport PSNR of ${psnr} dB`);
    console.log(`viewport PSNR over ${side}: ${Number(psnr).toFixed(1)} dB`);
  }

  await refuses(url);

  // A player ends, then the stand.
  const { pid } = stand.status(sockets.mptcp).find((one) => one.role === 'stream play');
  const env = { ...stand.environment, TRIBUTARY_RUNTIME_DIR: sockets.mptcp };
  execFileSync(program, ['ctl', '--pid', String(pid), 'drain'], { env });
  await page.locator('[data-side=mptcp]', { hasText: 'Its player has ended' }).waitFor(PATIENCE);
  await frame(page, 'mptcp').locator('.over', { hasText: 'does not answer' }).waitFor(PATIENCE);
  started.child.kill();
  await page.locator('.lost', { hasText: 'does not answer' }).waitFor(PATIENCE);
  const others = complaints.filter((text) => !text.includes('ERR_') && !text.includes('502'));
  if (others.length > 0) fail(others.join('; '));
  if (asked.size !== 1) fail(`requests to ${[...asked].join(', ')}`);

  const [pictures, different] = record(file, tiles);
  console.log(`the recording has ${pictures} pictures, ${different} different ones`);
  if (pictures !== 60 || different < 10) fail('the recording is not what it should be');
  console.log('the stand shows what arrives on both sides');
} finally {
  await stand.end();
}
