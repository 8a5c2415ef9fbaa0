// Who turns the view of the page of `tributary stream play --web`: a mouse, a finger, a device that is turned, a headset, and other pages; and that the
// page stands another size, the background and names with markup. Chromium's device orientation and the headset are emulated.
// Usage, in a network namespace of its own: node looking.mjs PROGRAM SCREENSHOT
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { PATIENCE, Stand, fail, ip, sleep } from './stand.mjs';
import { appears, expected, shows, source } from './video.mjs';

const [program, screenshot] = process.argv.slice(2);
const stand = new Stand(program);
const MARKUP = '<b>radio1<b>';
const IWER = fileURLToPath(new URL('node_modules/iwer/build/iwer.min.js', import.meta.url));

/** Waits until the program plans for a viewer who looks there. */
async function planned(yaw, pitch = 0, roll = 0) {
  const until = Date.now() + PATIENCE.timeout;
  const near = (a, b) => Math.abs(a - b - 360 * Math.round((a - b) / 360)) < 0.1;
  for (;;) {
    const { look } = stand.status().find((one) => one.role === 'stream play');
    if (look && near(look.yaw, yaw) && near(look.pitch, pitch) && near(look.roll, roll)) return;
    if (Date.now() > until) fail(`the program plans for ${JSON.stringify(look)} instead of ${[yaw, pitch, roll]}`);
    await sleep(50);
  }
}

/** A phone held upright in a hand, then on its side. */
async function device(page, tiles) {
  const devtools = await page.context().newCDPSession(page);
  const hold = (alpha, beta, gamma) => devtools.send('DeviceOrientation.setDeviceOrientationOverride', { alpha, beta, gamma });
  const button = page.getByRole('button', { name: 'Turn with the device' });
  if (await button.isVisible()) fail('there is a button for an orientation that is not measured');
  await hold(40, 90, 0);
  await button.waitFor(PATIENCE);
  // The heading when it is switched on is that of the view.
  await button.press('Enter');
  await page.locator('button[aria-pressed=true]').waitFor(PATIENCE);
  await planned(0);
  await hold(40 + 270, 90, 0);
  await planned(90);
  await shows(page, expected(tiles, 384, 128));
  await hold(40 + 270, 130, 0);
  await planned(90, 40);
  await hold(40 + 270, 90, 20);
  await planned(70);
  // Its upper edge to the left, and the screen upright again.
  const size = { width: 900, height: 600, deviceScaleFactor: 1, mobile: true };
  await devtools.send('Emulation.setDeviceMetricsOverride', { ...size, screenOrientation: { type: 'landscapePrimary', angle: 90 } });
  await hold(40, 0, -90);
  await planned(90);
  await hold(40, 0, -60);
  await planned(90, -30);
  // Keys turn the world around the device.
  await page.locator('canvas').focus();
  for (let press = 0; press < 4; press += 1) await page.keyboard.press('Shift+ArrowRight');
  await planned(270, -30);
  await page.keyboard.press('Shift+ArrowUp');
  await page.keyboard.press('Shift+ArrowLeft');
  await planned(225, -30);
  await hold(40, 0, -90);
  await planned(225);
  for (let press = 0; press < 3; press += 1) await page.keyboard.press('ArrowLeft');
  await planned(180);
  // A screenshot is of the upright screen again, and shows what was drawn before.
  await shows(page, expected(tiles, 2, 128));
  // Not turned with the device any more.
  await button.click();
  await hold(40, 20, -60);
  await page.locator('canvas').press('Home');
  await planned(0);
  await devtools.send('Emulation.clearDeviceMetricsOverride');
  await devtools.send('DeviceOrientation.clearDeviceOrientationOverride');
  await devtools.detach();
}

/** The picture follows a mouse, then a finger: its height is 90°. Twice by half of it, because it may be higher than wide. */
async function dragged(page, tiles) {
  const { x, y, width, height } = await page.locator('canvas').boundingBox();
  const far = (await page.locator('canvas').evaluate((canvas) => canvas.clientHeight)) / 2;
  const middle = Math.round(y + height / 2);
  const right = Math.round(x + width - 20);
  if (right - far < x) fail('the canvas is too narrow for this test');
  for (let time = 0; time < 2; time += 1) {
    await page.mouse.move(right, middle);
    await page.mouse.down();
    await page.mouse.move(right - far, middle, { steps: 5 });
    await page.mouse.up();
  }
  await planned(90);
  await shows(page, expected(tiles, 384, 128));
  const devtools = await page.context().newCDPSession(page);
  const touch = (type, ...points) => devtools.send('Input.dispatchTouchEvent', { type, touchPoints: points.map(([x, y]) => ({ x, y })) });
  await devtools.send('Emulation.setTouchEmulationEnabled', { enabled: true });
  for (let time = 0; time < 2; time += 1) {
    await touch('touchStart', [right - far, middle]);
    for (const part of [0.25, 0.5, 0.75, 1]) await touch('touchMove', [right - far + part * far, middle]);
    await touch('touchEnd');
  }
  await planned(0);
  await devtools.send('Emulation.setTouchEmulationEnabled', { enabled: false });
  await devtools.detach();
  await shows(page, expected(tiles, 256, 128));
}

/** Another page that opens looks where the first one does, and each turns the other. */
async function tabs(page, url) {
  await page.locator('canvas').focus();
  for (let press = 0; press < 6; press += 1) await page.keyboard.press('ArrowRight');
  await planned(90);
  const { page: second, complaints } = await stand.page(undefined, page);
  await second.goto(url);
  await second.locator('main[data-yaw="90"][data-state=playing]').waitFor(PATIENCE);
  await planned(90);
  await second.locator('canvas').focus();
  for (let press = 0; press < 6; press += 1) await second.keyboard.press('ArrowLeft');
  await planned(0);
  await page.bringToFront();
  await page.locator('main[data-yaw="0"]').waitFor(PATIENCE);
  const { pages } = stand.status().find((one) => one.role === 'stream play');
  if (pages !== 2) fail(`${pages} pages instead of 2`);
  await second.close();
  if (complaints.length > 0) fail(complaints.join('; '));
}

/** The picture fills its place whatever the window's size, with its shape and at most its pixels, and nothing is wider than the window. */
async function resized(page, tiles) {
  for (const [width, height] of [[390, 700], [1600, 500], [1180, 900]]) {
    await page.setViewportSize({ width, height });
    await page.waitForFunction(() => {
      const { width, height, clientWidth, clientHeight } = document.querySelector('canvas');
      // Both sides are rounded.
      const shape = Math.abs(width * clientHeight - height * clientWidth) <= (clientWidth + clientHeight) / 2;
      return shape && width <= Math.round(clientWidth * devicePixelRatio) && document.querySelector('main').dataset.drawn === `${width}×${height}`;
    }, undefined, PATIENCE);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    if (wide > width) fail(`the page is ${wide} pixels wide in a window of ${width}`);
    await shows(page, expected(tiles, 256, 128));
    await page.screenshot({ path: screenshot.replace('.png', `-${width}.png`) });
  }
}

/** Chromium without a screen shows every tab, so a tab in the background is one that draws no picture. */
const HIDEABLE = () => {
  const draw = window.requestAnimationFrame.bind(window);
  window.requestAnimationFrame = (call) => draw(function again(now) {
    if (window.inBackground) draw(again);
    else call(now);
  });
};

/** A page that comes back from the background goes on with what plays now, and blames no decoder. */
async function background(page, tiles) {
  await page.evaluate(() => (window.inBackground = true));
  const slot = () => stand.status().find((one) => one.role === 'stream play').shown.slot;
  const hidden = slot();
  const shown = Number(await page.locator('main').getAttribute('data-slot'));
  if (Math.abs(hidden - shown) > 2) fail(`slot ${shown} is shown, and the program plays slot ${hidden}`);
  while (slot() < hidden + 5) await sleep(200);
  if (Number(await page.locator('main').getAttribute('data-slot')) !== shown) fail('the page draws in the background');
  await page.evaluate(() => (window.inBackground = false));
  await page.waitForFunction((slot) => Number(document.querySelector('main').dataset.slot) >= slot, hidden + 4, PATIENCE);
  await shows(page, expected(tiles, 256, 128));
  const stopped = await page.locator('dl div', { hasText: 'decoders that stopped' }).locator('dd').innerText();
  if (stopped !== '0') fail(`${stopped} decoders are said to have stopped`);
}

/** A page on a machine with a headset. */
async function wearing(url) {
  // Small, because a processor draws it.
  const { page, complaints } = await stand.page({ width: 640, height: 480 });
  await page.addInitScript({ path: IWER });
  await page.addInitScript(() => {
    window.headset = new IWER.XRDevice(IWER.metaQuest3, { stereoEnabled: true });
    window.headset.installRuntime({ forceInstall: true });
  });
  await page.goto(url);
  await appears(page, page.locator('canvas').first());
  await page.locator('main[data-state=playing]').waitFor(PATIENCE);
  const turn = (yaw, pitch = 0, roll = 0) =>
    page.evaluate(([yaw, pitch, roll]) => {
      const { x, y, z, w } = IWER.eulerToQuat({ yaw, pitch, roll });
      window.headset.quaternion.set(x, y, z, w);
      // The head moves, too, which changes nothing in a panorama.
      window.headset.position.set(yaw / 90, 1.6, pitch / 30);
    }, [yaw, pitch, roll]);
  /** What the left and the right eye see. */
  const see = async (left, right) => {
    await appears(page, page.locator('canvas').first());
    await shows(page, left, page.locator('canvas').first(), 0.25);
    await shows(page, right, page.locator('canvas').first(), 0.75);
  };
  return { page, complaints, turn, see };
}

/** Each eye sees its own picture, and a flat screen the left one. */
async function stereo(url, tiles) {
  const { page, complaints, turn, see } = await wearing(url);
  const of = (x) => [128, 384].map((y) => expected(tiles, x, y, 2));
  await shows(page, of(256)[0]);
  await page.getByRole('button', { name: 'Enter VR' }).press('Enter');
  await see(...of(256));
  await turn(90);
  await planned(-90);
  await see(...of(128));
  const { shown, video } = stand.status().find((one) => one.role === 'stream play');
  if (video.projection !== 'top-bottom' || shown.tiles.length !== 16) fail(`${shown.tiles.length} tiles, ${video.projection}`);
  await page.screenshot({ path: screenshot.replace('.png', '-stereo.png') });
  await page.close();
  if (complaints.length > 0) fail(complaints.join('; '));
}

async function headset(url, tiles) {
  const { page, complaints, turn, see } = await wearing(url);
  const eyes = (x) => see(expected(tiles, x, 128), expected(tiles, x, 128));
  await page.locator('canvas').focus();
  for (let press = 0; press < 6; press += 1) await page.keyboard.press('ArrowRight');
  await planned(90);
  await page.getByRole('button', { name: 'Enter VR' }).press('Enter');
  await page.getByRole('button', { name: 'Leave VR', includeHidden: true }).waitFor({ state: 'attached', ...PATIENCE });
  // What was ahead on the page is ahead in the headset.
  await eyes(384);
  await turn(90);
  await planned(0);
  await eyes(256);
  await page.screenshot({ path: screenshot.replace('.png', '-headset.png') });
  await turn(180);
  await planned(-90);
  await eyes(128);
  await turn(90, 20, -10);
  await planned(0, 20, 10);
  await page.evaluate(() => window.headset.activeSession.end());
  const enter = page.getByRole('button', { name: 'Enter VR' });
  await enter.waitFor(PATIENCE);
  // The view stays, with a level horizon.
  await planned(0, 20, 0);
  await page.locator('canvas').focus();
  await page.keyboard.press('Home');
  await planned(0);
  await shows(page, expected(tiles, 256, 128));
  await enter.click();
  await eyes(256);
  await page.close();
  if (complaints.length > 0) fail(complaints.join('; '));
}

try {
  const tiles = source(stand);
  const keys = stand.keys();
  ip('link', 'set', 'radio1', 'down');
  ip('link', 'set', 'radio1', 'name', MARKUP);
  ip('link', 'set', MARKUP, 'up');
  const watch = async (tiles) => {
    const served = await stand.start('stream', 'serve', tiles, '--listen', '10.9.9.1:0', ...keys.server);
    const [address] = served.answer.listening;
    const paths = ['--path', `10.9.0.2=${address}`, '--path', `${MARKUP}=${address}`];
    return stand.start('stream', 'play', '--web', '127.0.0.1:0', ...paths, '--wait', '3', ...keys.client);
  };
  const player = await watch(tiles);
  const { url } = player.answer;
  await stand.browse();
  const { page, complaints, asked } = await stand.page();
  await page.addInitScript(HIDEABLE);
  await page.goto(url);
  await appears(page, page.locator('canvas').first());
  await page.locator('main[data-state=playing]').waitFor(PATIENCE);
  await page.locator('.radios b', { hasText: MARKUP }).waitFor(PATIENCE);
  await dragged(page, tiles);
  await device(page, tiles);
  await tabs(page, url);
  await resized(page, tiles);
  await background(page, tiles);
  await page.screenshot({ path: screenshot });
  await page.close();
  await headset(url, tiles);
  player.child.kill();
  await once(player.child, 'exit');
  const both = source(stand, 2);
  await stereo((await watch(both)).answer.url, both);
  if (complaints.length > 0) fail(complaints.join('; '));
  if (asked.size !== 1) fail(`requests to ${[...asked].join(', ')}`);
  console.log('the view follows a mouse, a finger, a device, a headset and other pages');
} finally {
  await stand.end();
}
