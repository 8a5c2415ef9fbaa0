// What the tests of the program's pages share: two radios in a network namespace of its own, running programs with their keys, and
// a browser that records what it asks for and complains about.
import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { chromium } from 'playwright-core';

/** How long a page may take to show what it has to show. */
export const PATIENCE = { timeout: 60000 };

export const fail = (words) => {
  throw new Error(words);
};
export const ip = (...words) => execFileSync('ip', words);
export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

/** Seconds of processor time of a process; the kernel counts in hundredths. */
export const used = (pid) => {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ');
  return (Number(fields[11]) + Number(fields[12])) / 100;
};

/** Limits what comes to the radios' addresses, Mbit/s; the page's own traffic is on loopback, too, and is not limited. */
export function limit(rates) {
  // A packet of 64 kB would not fit into the queue.
  ip('link', 'set', 'lo', 'mtu', '1500', 'gso_max_size', '1514');
  const tc = (...words) => execFileSync('tc', words);
  tc('qdisc', 'add', 'dev', 'lo', 'root', 'handle', '1:', 'htb', 'default', '1');
  tc('class', 'add', 'dev', 'lo', 'parent', '1:', 'classid', '1:1', 'htb', 'rate', '100gbit');
  for (const [radio, rate] of rates.entries()) {
    const class_ = `1:${radio + 2}`;
    tc('class', 'add', 'dev', 'lo', 'parent', '1:', 'classid', class_, 'htb', 'rate', `${rate}mbit`, 'burst', '3kb', 'cburst', '3kb');
    tc('qdisc', 'add', 'dev', 'lo', 'parent', class_, 'bfifo', 'limit', '60kb');
    tc('filter', 'add', 'dev', 'lo', 'parent', '1:', 'protocol', 'ip', 'u32', 'match', 'ip', 'dst', `10.9.${radio}.2/32`, 'flowid', class_);
  }
}

/** Every name in the legends of a page's charts is followed by a value that is seen. */
export async function legends(page) {
  const names = await page.locator('.u-legend th:visible').count();
  const values = await page.locator('.u-legend .u-value:visible').allInnerTexts();
  if (names === 0 || values.length !== names || values.some((text) => !/\d/.test(text))) fail(`${names} names of legends have the values ${JSON.stringify(values)}`);
}

export class Stand {
  directory = mkdtempSync(join(tmpdir(), 'stand-'));
  environment = { ...process.env, TRIBUTARY_RUNTIME_DIR: join(this.directory, 'run') };
  children = [];

  constructor(program) {
    this.program = program;
    ip('link', 'set', 'lo', 'up');
    ip('addr', 'add', '10.9.9.1/32', 'dev', 'lo');
    for (const radio of ['0', '1']) {
      ip('link', 'add', `radio${radio}`, 'type', 'veth', 'peer', 'name', `far${radio}`);
      ip('addr', 'add', `10.9.${radio}.2/24`, 'dev', `radio${radio}`);
      for (const end of ['radio', 'far']) ip('link', 'set', `${end}${radio}`, 'up');
    }
  }

  /** Runs the program to its end. */
  run(...words) {
    return execFileSync(this.program, words, { env: this.environment, encoding: 'utf8' });
  }

  /** Starts the program; returns the first line that it prints, an object. */
  start(...words) {
    return this.startOf(this.program, ...words);
  }

  async startOf(program, ...words) {
    const stdio = ['ignore', 'pipe', 'inherit'];
    const child = spawn(program, [...words, '--json'], { env: this.environment, stdio });
    this.children.push(child);
    for await (const line of createInterface({ input: child.stdout })) return { child, answer: JSON.parse(line) };
    return fail(`${words.join(' ')} ended`);
  }

  /** What the programs whose sockets are in a directory say of themselves. */
  status(sockets = this.environment.TRIBUTARY_RUNTIME_DIR) {
    const env = { ...this.environment, TRIBUTARY_RUNTIME_DIR: sockets };
    return JSON.parse(execFileSync(this.program, ['status', '--json'], { env, encoding: 'utf8' })).programs;
  }

  /** Options of a server and of its client, with a key of each; the server knows the client by this name. */
  keys(name = 'headset') {
    const directory = mkdtempSync(join(this.directory, 'keys-'));
    const [server, client] = ['server.key', 'client.key'].map((key) => {
      const file = join(directory, key);
      this.run('keygen', '--out', file);
      return { file, pub: this.run('pubkey', file).trim() };
    });
    const clients = join(directory, 'clients.toml');
    writeFileSync(clients, `[[client]]\nname = "${name}"\nkey = "${client.pub}"\n`, { mode: 0o600 });
    return {
      server: ['--key', server.file, '--clients', clients],
      client: ['--key', client.file, '--server-key', server.pub],
    };
  }

  /** The two radios' paths to an address. */
  paths(address) {
    return ['10.9.0.2', '10.9.1.2'].map((local) => `${local}=${address}`);
  }

  async browse() {
    this.browser = await chromium.launch({
      executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
      args: ['--no-sandbox', '--disable-gpu', '--enable-unsafe-swiftshader'],
    });
    return this.browser;
  }

  /** A page of a size, what it complained about, and the hosts that it asked; `beside` is another page of the same browser window. */
  async page(viewport = { width: 1180, height: 900 }, beside = undefined) {
    const context = beside?.context() ?? (await this.browser.newContext({ viewport }));
    const page = await context.newPage();
    const [complaints, asked] = [[], new Set()];
    page.on('console', (message) => message.type() === 'error' && complaints.push(message.text()));
    page.on('pageerror', (error) => complaints.push(String(error)));
    page.on('request', (request) => asked.add(new URL(request.url()).host));
    return { page, complaints, asked };
  }

  /** A page in which all but so many decoders fail. */
  async pageWithDecoders(url, count) {
    const { page, complaints } = await this.page();
    await page.addInitScript((count) => {
      const Decoder = window.VideoDecoder;
      let made = 0;
      window.VideoDecoder = class extends Decoder {
        #fails = (made += 1) > count;
        configure(configuration) {
          if (this.#fails) throw new DOMException('there are not so many decoders', 'NotSupportedError');
          super.configure(configuration);
        }
      };
    }, count);
    await page.goto(url);
    return { page, complaints };
  }

  /** A page of another site must read nothing, although it knows the whole address. */
  async foreign(url) {
    const page = await this.browser.newPage();
    await page.goto('data:text/html,<title>other</title>');
    const read = await page.evaluate((data) => fetch(data).then((answer) => answer.text(), () => null), url);
    if (read !== null) fail(`a page of another origin read ${url}`);
    await page.close();
  }

  async end() {
    await this.browser?.close();
    for (const child of this.children) child.kill();
    rmSync(this.directory, { recursive: true, force: true });
  }
}
