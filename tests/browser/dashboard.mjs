// The page of `tributary status --web` in Chromium: compares what it shows with `tributary status --json` while a radio of a
// running proxy disappears and comes back, and programs and COTAG's nodes end. Usage, in a network namespace of its own: node dashboard.mjs PROGRAM SCREENSHOT
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, get } from 'node:http';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { accessible } from './axe.mjs';
import { PATIENCE, Stand, fail, ip, legends, sleep } from './stand.mjs';

const [program, screenshot] = process.argv.slice(2);
const stand = new Stand(program);
const MARKUP = '<i>guest</i>';
const status = () => stand.status();

async function check(url, radio) {
  const { page, complaints, asked } = await stand.page();
  await page.goto(url);

  const row = `article[data-role=connect] tr[data-radio="${radio}"]`;
  await page.locator(`${row}[data-state=up]`).waitFor(PATIENCE);
  const client = status().find((one) => one.role === 'connect') ?? fail('connect is not running');
  const shown = await page.locator('article[data-role=connect]').getAttribute('data-pid');
  if (Number(shown) !== client.pid) fail(`the page shows process ${shown}, and it is ${client.pid}`);
  // The counter grows, so the page soon shows what the program said before.
  const received = client.sessions[0].paths.find((path) => path.radio === radio).received;
  const reached = ([row, received]) => {
    const [number, unit] = document.querySelector(`${row} td:last-of-type`).textContent.split(' ');
    return Number(number) * { B: 1, kB: 1e3, MB: 1e6, GB: 1e9 }[unit] >= received;
  };
  await page.waitForFunction(reached, [row, received], PATIENCE);
  if (received === 0) fail('nothing was carried');
  await page.locator('article[data-role=connect] .chart canvas').first().waitFor(PATIENCE);
  const canvases = await page.locator('article[data-role=connect] .chart canvas').count();
  if (canvases !== 1) fail(`${canvases} curves instead of one`);
  // RTT and loss, each with a line of what it was. The client sends little; the server's loss is that of the download.
  const traces = page.locator(`${row} .trace path`);
  await page.waitForFunction((row) => [...document.querySelectorAll(`${row} .trace path`)].some((path) => /L/.test(path.getAttribute('d'))), row, PATIENCE);
  if ((await traces.count()) > 2) fail(`${await traces.count()} lines beside RTT and loss`);
  await page.locator('article[data-role=serve] td[data-loss]:not([data-loss=""])').first().waitFor(PATIENCE);
  for (const { loss } of status().find((one) => one.role === 'serve').sessions[0].paths) if (loss !== null && !(loss >= 0 && loss <= 1)) fail(`a loss of ${loss}`);

  const share = `article[data-role=connect] .shares li[data-radio="${radio}"]`;
  await page.locator(share).first().waitFor(PATIENCE);
  const shares = await page.locator('article[data-role=connect] .shares ul').last().locator('li').evaluateAll((all) =>
    all.map((one) => Number(one.dataset.share)));
  if (Math.abs(shares.reduce((sum, one) => sum + one, 0) - 100) > 1) fail(`the radios' shares are ${shares} %`);

  ip('addr', 'del', '10.9.0.2/24', 'dev', 'radio0');
  // Its last state: the page and the program have the same cause from now on.
  await page.locator(`${row}[data-state=removed]`).waitFor(PATIENCE);
  const text = await page.locator(row).innerText();
  const paths = status().find((one) => one.role === 'connect').sessions[0].paths;
  const { cause } = paths.find((path) => path.radio === radio);
  if (!cause || !text.includes(cause)) fail(`the program says "${cause}", the page "${text}"`);
  const change = page.locator('.events li', { hasText: radio }).first();
  await change.waitFor(PATIENCE);
  console.log(`the page: ${await change.innerText()}`);
  await sleep(3000);
  await page.screenshot({ path: screenshot, fullPage: true });
  await legends(page);
  await accessible(page, 'the dashboard');
  ip('addr', 'add', '10.9.0.2/24', 'dev', 'radio0');
  await page.locator(`${row}[data-state=up]`).waitFor(PATIENCE);

  if (complaints.length > 0) fail(complaints.join('; '));
  if (asked.size !== 1) fail(`requests to ${[...asked].join(', ')}`);
  return page;
}

/** Opens the client's log, moves in time, and hands it over as one file that needs no server. */
async function replay(page, written, radio) {
  // The client still writes its log: the page and this test have to read the same events.
  const log = written.replace('.jsonl', '-copy.jsonl');
  copyFileSync(written, log);
  await page.locator('input[type=file]').setInputFiles(log);
  const lane = page.locator(`.lane[data-radio="${radio}"]`);
  await lane.waitFor(PATIENCE);
  const events = readFileSync(log, 'utf8').trim().split('\n').map((line) => JSON.parse(line));
  const gone = events.find((one) => one.event === 'path_removed' && one.radio === radio).t;
  const states = async (page) => {
    for (const [at, state] of [[gone - 0.01, 'up'], [gone + 0.001, 'removed'], [events.at(-1).t, 'up']]) {
      await page.locator('.time input').fill(String(at));
      await page.locator(`.lane[data-radio="${radio}"][data-state=${state}]`).waitFor(PATIENCE);
    }
  };
  await states(page);
  await page.screenshot({ path: screenshot.replace('.png', '-replay.png') });
  await accessible(page, 'a saved run');
  await page.locator('.time input').focus();
  await page.keyboard.press('End');
  await page.waitForFunction((count) => document.querySelectorAll('.past li').length === count, Math.min(100, events.length), PATIENCE);
  const [download] = await Promise.all([page.waitForEvent('download'), page.getByText('Save as one HTML file').click()]);
  const file = log.replace('.jsonl', '.html');
  await download.saveAs(file);
  const alone = await stand.page();
  await alone.page.goto(`file://${file}`);
  await states(alone.page);
  if (alone.complaints.length > 0) fail(alone.complaints.join('; '));
  await alone.page.close();
  await page.locator('input[type=file]').setInputFiles({ name: '<b>no log</b>', mimeType: 'text/plain', buffer: Buffer.from('<i>x</i>\n{}') });
  await page.locator('.replay [role=alert]', { hasText: 'it has no event' }).waitFor(PATIENCE);
  await page.getByRole('button', { name: 'Close' }).click();
}

/** A program that is killed is gone from the page, which says so. */
async function ends(page, child) {
  const gone = once(child, 'exit');
  child.kill('SIGKILL');
  await gone;
  await page.locator(`article[data-role=connect][data-pid="${child.pid}"]`).waitFor({ state: 'detached', ...PATIENCE });
  await page.locator('.events li', { hasText: 'connect: has ended' }).waitFor(PATIENCE);
}

/** The hops of COTAG's nodes are shown as radios are, and go with the node at their other end. */
async function nodes(page) {
  const [hop, radio] = ['hop', 'radio'].map((name) => {
    const file = join(stand.directory, `${name}.key`);
    stand.run('keygen', '--shared', '--out', file);
    return `shared:${file}`;
  });
  const [GATEWAY, POINT] = ['10.9.9.1:7100', '10.9.9.1:7101'];
  await stand.start('gateway', '--listen', GATEWAY, '--access-point', `ap1=${hop}`, '--tun', 'cotag0', '--address', '10.99.0.1/24');
  const point = await stand.start('ap', '--gateway', GATEWAY, '--gateway-key', hop, '--listen', POINT, '--device-key', radio, '--number', '1');
  const row = page.locator('article[data-role=gateway] tr[data-radio=ap1]');
  await page.locator('article[data-role=gateway] tr[data-radio=ap1][data-state=up]').waitFor(PATIENCE);
  await page.locator('article[data-role=access-point] tr[data-radio=gateway][data-state=up]').waitFor(PATIENCE);
  await page.locator('article[data-role=access-point] tr[data-radio=device][data-state=down]').waitFor(PATIENCE);
  const { rtt_ms } = status().find((one) => one.role === 'gateway').links[0];
  const shown = await row.locator('td').nth(1).innerText();
  if (!(rtt_ms > 0) || !/\d/.test(shown)) fail(`the gateway says an RTT of ${rtt_ms} ms, the page ${shown}`);
  await page.waitForFunction(() => document.querySelectorAll('article[data-role=gateway] .chart canvas').length === 1, undefined, PATIENCE);
  // The nodes greet each other several times a second: the page works the rate out.
  await page.waitForFunction(() => [...document.querySelectorAll('article[data-role=gateway] meter')].some((meter) => meter.value > 0), undefined, PATIENCE);
  await accessible(page, 'the dashboard with nodes');
  const gone = once(point.child, 'exit');
  point.child.kill('SIGKILL');
  await gone;
  await page.locator('article[data-role=gateway] tr[data-radio=ap1]:not([data-state=up])').waitFor(PATIENCE);
  await page.locator('.events li', { hasText: /gateway: ap1 is (down|silent)/ }).first().waitFor(PATIENCE);
}

/** On a desktop, the command opens the URL that it prints. */
async function opens() {
  const [folder, opened] = ['desktop', 'opened'].map((name) => join(stand.directory, name));
  mkdirSync(folder);
  writeFileSync(join(folder, 'xdg-open'), `#!/bin/sh\nprintf %s "$1" >'${opened}.part' && mv '${opened}.part' '${opened}'\n`, { mode: 0o755 });
  const env = { ...stand.environment, DISPLAY: ':0', PATH: `${folder}:${process.env.PATH}` };
  const child = spawn(program, ['status', '--web'], { env, stdio: ['ignore', 'pipe', 'inherit'] });
  stand.children.push(child);
  const [url] = await once(createInterface({ input: child.stdout }), 'line');
  for (const until = Date.now() + PATIENCE.timeout; !existsSync(opened); await sleep(50)) if (Date.now() > until) fail('no browser was opened');
  if (readFileSync(opened, 'utf8') !== url) fail(`${url} was printed, and ${readFileSync(opened, 'utf8')} opened`);
}

// One piece each 20 ms: about 8 Mbit/s.
const origin = createServer((_, answer) => {
  const timer = setInterval(() => answer.write(Buffer.alloc(20000)), 20);
  answer.on('close', () => clearInterval(timer));
});
try {
  await new Promise((done) => origin.listen(0, '127.0.0.1', done));
  const keys = stand.keys();
  const target = `127.0.0.1:${origin.address().port}`;
  const server = await stand.start('serve', '--listen', '10.9.9.1:0', '--forward', target, ...keys.server);
  const radios = stand.paths(server.answer.listening[0]);
  const paths = radios.flatMap((radio) => ['--path', radio]);
  const log = join(stand.directory, 'client.jsonl');
  const client = await stand.start('connect', ...paths, '--listen', '127.0.0.1:0', ...keys.client, '--json-events', log);
  const download = get(`http://${client.answer.listening[0]}/`, (answer) => answer.resume());
  const web = await stand.start('status', '--web');
  await opens();
  await stand.browse();
  const page = await check(web.answer.url, radios[0]);
  await replay(page, log, radios[0]);
  await stand.foreign(`${web.answer.url}programs`);
  download.destroy();
  await ends(page, client.child);
  // No name is taken for markup.
  const guest = stand.keys(MARKUP);
  const second = await stand.start('serve', '--listen', '10.9.9.1:0', '--forward', target, ...guest.server);
  const path = stand.paths(second.answer.listening[0])[0];
  const { child } = await stand.start('connect', '--path', path, '--listen', '127.0.0.1:0', ...guest.client);
  await page.locator(`article[data-role=connect][data-pid="${child.pid}"]`).waitFor(PATIENCE);
  await page.locator('.events li', { hasText: `process ${child.pid} runs` }).waitFor(PATIENCE);
  await page.locator('article[data-role=serve] th', { hasText: MARKUP }).waitFor(PATIENCE);
  await nodes(page);
  web.child.kill();
  await page.locator('.lost', { hasText: 'does not answer' }).waitFor(PATIENCE);
  // Another one at the same address has another secret; the page says what to do.
  await stand.start('status', '--web', new URL(web.answer.url).host);
  await page.locator('.lost', { hasText: 'use the URL that the program printed' }).waitFor(PATIENCE);
} finally {
  await stand.end();
  origin.close();
  origin.closeAllConnections();
}
