// The page of `tributary status --web` in Chromium: compares what it shows with `tributary status --json` while a radio of a
// running proxy disappears and comes back. Usage, in a network namespace of its own: node dashboard.mjs PROGRAM SCREENSHOT
import { readFileSync } from 'node:fs';
import { createServer, get } from 'node:http';
import { join } from 'node:path';
import { Stand, fail, ip, sleep } from './stand.mjs';

const [program, screenshot] = process.argv.slice(2);
const stand = new Stand(program);
const status = () => stand.status();

async function check(url, radio) {
  const { page, complaints, asked } = await stand.page();
  await page.goto(url);

  const row = `article[data-role=connect] tr[data-radio="${radio}"]`;
  await page.locator(`${row}[data-state=up]`).waitFor({ timeout: 20000 });
  const client = status().find((one) => one.role === 'connect') ?? fail('connect is not running');
  const shown = await page.locator('article[data-role=connect]').getAttribute('data-pid');
  if (Number(shown) !== client.pid) fail(`the page shows process ${shown}, and it is ${client.pid}`);
  // The counter grows, so the page soon shows what the program said before.
  const received = client.sessions[0].paths.find((path) => path.radio === radio).received;
  const reached = ([row, received]) => {
    const [number, unit] = document.querySelector(`${row} td:last-of-type`).textContent.split(' ');
    return Number(number) * { B: 1, kB: 1e3, MB: 1e6, GB: 1e9 }[unit] >= received;
  };
  await page.waitForFunction(reached, [row, received], { timeout: 20000 });
  if (received === 0) fail('nothing was carried');
  const canvases = await page.locator('article[data-role=connect] .chart canvas').count();
  if (canvases !== 1) fail(`${canvases} curves instead of one`);

  const share = `article[data-role=connect] .shares li[data-radio="${radio}"]`;
  await page.locator(share).first().waitFor({ timeout: 20000 });
  const shares = await page.locator('article[data-role=connect] .shares ul').last().locator('li').evaluateAll((all) =>
    all.map((one) => Number(one.dataset.share)));
  if (Math.abs(shares.reduce((sum, one) => sum + one, 0) - 100) > 1) fail(`the radios' shares are ${shares} %`);

  ip('addr', 'del', '10.9.0.2/24', 'dev', 'radio0');
  await page.locator(`${row}:not([data-state=up])`).waitFor({ timeout: 60000 });
  const text = await page.locator(row).innerText();
  const paths = status().find((one) => one.role === 'connect').sessions[0].paths;
  const { cause } = paths.find((path) => path.radio === radio);
  if (!cause || !text.includes(cause)) fail(`the program says "${cause}", the page "${text}"`);
  const change = page.locator('.events li', { hasText: radio }).first();
  await change.waitFor({ timeout: 5000 });
  console.log(`the page: ${await change.innerText()}`);
  await sleep(3000);
  await page.screenshot({ path: screenshot, fullPage: true });
  ip('addr', 'add', '10.9.0.2/24', 'dev', 'radio0');
  await page.locator(`${row}[data-state=up]`).waitFor({ timeout: 60000 });

  if (complaints.length > 0) fail(complaints.join('; '));
  if (asked.size !== 1) fail(`requests to ${[...asked].join(', ')}`);
  return page;
}

/** Opens the client's log, moves in time, and hands it over as one file that needs no server. */
async function replay(page, log, radio) {
  await page.locator('input[type=file]').setInputFiles(log);
  const lane = page.locator(`.lane[data-radio="${radio}"]`);
  await lane.waitFor({ timeout: 5000 });
  const events = readFileSync(log, 'utf8').trim().split('\n').map((line) => JSON.parse(line));
  const gone = events.find((one) => one.event === 'path_removed' && one.radio === radio).t;
  const states = async (page) => {
    for (const [at, state] of [[gone - 0.01, 'up'], [gone + 0.001, 'removed'], [events.at(-1).t, 'up']]) {
      await page.locator('.time input').fill(String(at));
      const shown = await page.locator(`.lane[data-radio="${radio}"]`).getAttribute('data-state');
      if (shown !== state) fail(`at ${at} s the radio is shown as ${shown}, and it was ${state}`);
    }
  };
  await states(page);
  await page.screenshot({ path: screenshot.replace('.png', '-replay.png') });
  await page.locator('.time input').focus();
  await page.keyboard.press('End');
  const listed = await page.locator('.past li').count();
  if (listed !== Math.min(100, events.length)) fail(`${listed} events instead of ${events.length}`);
  const [download] = await Promise.all([page.waitForEvent('download'), page.getByText('Save as one HTML file').click()]);
  const file = log.replace('.jsonl', '.html');
  await download.saveAs(file);
  const alone = await stand.page();
  await alone.page.goto(`file://${file}`);
  await states(alone.page);
  if (alone.complaints.length > 0) fail(alone.complaints.join('; '));
  await alone.page.close();
  await page.locator('input[type=file]').setInputFiles({ name: '<b>no log</b>', mimeType: 'text/plain', buffer: Buffer.from('<i>x</i>\n{}') });
  await page.locator('.replay [role=alert]', { hasText: 'it has no event' }).waitFor({ timeout: 5000 });
  await page.getByRole('button', { name: 'Close' }).click();
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
  await stand.browse();
  const page = await check(web.answer.url, radios[0]);
  await replay(page, log, radios[0]);
  await stand.foreign(`${web.answer.url}programs`);
  web.child.kill();
  await page.locator('.lost').waitFor({ timeout: 10000 });
  download.destroy();
} finally {
  await stand.end();
  origin.close();
  origin.closeAllConnections();
}
