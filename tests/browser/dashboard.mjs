// The page of `tributary status --web` in Chromium: compares what it shows with `tributary status --json` while a radio of a
// running proxy disappears and comes back. Usage, in a network namespace of its own: node dashboard.mjs PROGRAM SCREENSHOT
import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, get } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { chromium } from 'playwright-core';

const [program, screenshot] = process.argv.slice(2);
const directory = mkdtempSync(join(tmpdir(), 'dashboard-'));
const environment = { ...process.env, TRIBUTARY_RUNTIME_DIR: join(directory, 'run') };
const children = [];

const fail = (words) => {
  throw new Error(words);
};
const ip = (...words) => execFileSync('ip', words);
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

/** Starts the program; returns the first line that it prints, an object. */
async function start(...words) {
  const child = spawn(program, [...words, '--json'], { env: environment, stdio: ['ignore', 'pipe', 'inherit'] });
  children.push(child);
  for await (const line of createInterface({ input: child.stdout })) return { child, answer: JSON.parse(line) };
  return fail(`${words.join(' ')} ended`);
}

const status = () =>
  JSON.parse(execFileSync(program, ['status', '--json'], { env: environment, encoding: 'utf8' })).programs;

/** Two radios and a server that both reach. */
function network() {
  ip('link', 'set', 'lo', 'up');
  ip('addr', 'add', '10.9.9.1/32', 'dev', 'lo');
  for (const radio of ['0', '1']) {
    ip('link', 'add', `radio${radio}`, 'type', 'veth', 'peer', 'name', `far${radio}`);
    ip('addr', 'add', `10.9.${radio}.2/24`, 'dev', `radio${radio}`);
    for (const end of ['radio', 'far']) ip('link', 'set', `${end}${radio}`, 'up');
  }
}

async function check(browser, url, radio) {
  const page = await browser.newPage({ viewport: { width: 1180, height: 900 } });
  const complaints = [];
  page.on('console', (message) => message.type() === 'error' && complaints.push(message.text()));
  page.on('pageerror', (error) => complaints.push(String(error)));
  const asked = new Set();
  page.on('request', (request) => asked.add(new URL(request.url()).host));
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

/** A page of another site must read nothing, although it knows the whole address. */
async function foreign(browser, url) {
  const page = await browser.newPage();
  await page.goto('data:text/html,<title>other</title>');
  const read = await page.evaluate((data) => fetch(data).then((answer) => answer.text(), () => null), `${url}programs`);
  if (read !== null) fail('a page of another origin read the status');
  await page.close();
}

// One piece each 20 ms: about 8 Mbit/s.
const origin = createServer((_, answer) => {
  const timer = setInterval(() => answer.write(Buffer.alloc(20000)), 20);
  answer.on('close', () => clearInterval(timer));
});
let browser;
try {
  network();
  await new Promise((done) => origin.listen(0, '127.0.0.1', done));
  const [serverKey, clientKey] = ['server.key', 'client.key'].map((name) => {
    const file = join(directory, name);
    execFileSync(program, ['keygen', '--out', file]);
    return { file, pub: execFileSync(program, ['pubkey', file], { encoding: 'utf8' }).trim() };
  });
  const clients = join(directory, 'clients.toml');
  writeFileSync(clients, `[[client]]\nname = "headset"\nkey = "${clientKey.pub}"\n`, { mode: 0o600 });
  const target = `127.0.0.1:${origin.address().port}`;
  const ofServer = ['--key', serverKey.file, '--clients', clients];
  const server = await start('serve', '--listen', '10.9.9.1:0', '--forward', target, ...ofServer);
  const [address] = server.answer.listening;
  const radios = ['10.9.0.2', '10.9.1.2'].map((local) => `${local}=${address}`);
  const paths = radios.flatMap((radio) => ['--path', radio]);
  const ofClient = ['--key', clientKey.file, '--server-key', serverKey.pub];
  const client = await start('connect', ...paths, '--listen', '127.0.0.1:0', ...ofClient);
  const download = get(`http://${client.answer.listening[0]}/`, (answer) => answer.resume());
  const web = await start('status', '--web');
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu'],
  });
  const page = await check(browser, web.answer.url, radios[0]);
  await foreign(browser, web.answer.url);
  web.child.kill();
  await page.locator('.lost').waitFor({ timeout: 10000 });
  download.destroy();
} finally {
  await browser?.close();
  origin.close();
  origin.closeAllConnections();
  for (const child of children) child.kill();
  rmSync(directory, { recursive: true, force: true });
}
