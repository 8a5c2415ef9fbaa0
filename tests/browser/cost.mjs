// What the page of `tributary status --web` costs with many open connections: processor time of each program as a share of one core, with and
// without a page, while it is asked as a page asks but by no browser, and beside a browser that has no page; and the goodput of a download beside
// them while the programs are asked, over that while nobody asks. A browser that draws on the same cores makes every program's work take longer.
// Usage, in a network namespace of its own: node cost.mjs PROGRAM [CONNECTIONS] [SECONDS] [ROUNDS] [RADIO0,RADIO1]
// The radios' rates are in Mbit/s; without them they are as fast as the machine, and the download takes all of it.
import { createServer, get } from 'node:http';
import { Stand, limit, sleep, used } from './stand.mjs';

const [program, connections = '1000', seconds = '15', rounds = '24', radios] = process.argv.slice(2);
const stand = new Stand(program);
const ROUND_MS = 2000;
/** As often as a page. */
const ASK_MS = 1000;
// Each connection carries a little every second, a download as much as it can.
const origin = createServer((request, answer) => {
  if (request.url === '/download') {
    const piece = Buffer.alloc(1 << 18);
    const more = () => {
      while (!answer.destroyed && answer.write(piece));
    };
    answer.on('drain', more);
    return more();
  }
  const timer = setInterval(() => answer.write('a little data\n'), 1000);
  answer.on('close', () => clearInterval(timer));
});
try {
  if (radios) limit(radios.split(',').map(Number));
  await new Promise((done) => origin.listen(0, '127.0.0.1', done));
  const keys = stand.keys();
  const target = `127.0.0.1:${origin.address().port}`;
  const server = await stand.start('serve', '--listen', '10.9.9.1:0', '--forward', target, ...keys.server);
  const paths = stand.paths(server.answer.listening[0]).flatMap((radio) => ['--path', radio]);
  const client = await stand.start('connect', ...paths, '--listen', '127.0.0.1:0', ...keys.client);
  const port = client.answer.listening[0].split(':')[1];
  const open = (path, take) => get({ host: '127.0.0.1', port, path, agent: false }, (answer) => (take ? answer.on('data', take) : answer.resume())).on('error', () => {});
  for (let count = 0; count < Number(connections); count += 1) open('/');
  const web = await stand.start('status', '--web');
  const measure = async (name) => {
    await sleep(5000);
    const programs = { serve: server.child, connect: client.child, status: web.child };
    const before = Object.values(programs).map(({ pid }) => used(pid));
    const began = Date.now();
    await sleep(1000 * Number(seconds));
    const passed = (Date.now() - began) / 1000;
    const shares = Object.entries(programs).map(([role, child], at) => `${role} ${((100 * (used(child.pid) - before[at])) / passed).toFixed(2)} %`);
    console.log(`${name}: ${shares.join(', ')}`);
  };
  await measure('without a page');
  const ask = () => fetch(`${web.answer.url}programs`).then((answer) => answer.arrayBuffer());
  const asking = setInterval(() => void ask(), ASK_MS);
  await measure('asked, without a browser');
  clearInterval(asking);

  // The browser, which would take more than a core, is no part of either end. Asked and left alone in turns: ABBA.
  let arrived = 0;
  const download = open('/download', ({ length }) => (arrived += length));
  const round = async (asked) => {
    await sleep(200);
    const timer = asked ? setInterval(() => void ask(), ASK_MS) : undefined;
    if (asked) void ask();
    const [began, before] = [performance.now(), arrived];
    await sleep(ROUND_MS);
    clearInterval(timer);
    return (8 * (arrived - before)) / (performance.now() - began) / 1000;
  };
  await round(false);
  const ratios = [];
  const rates = [];
  for (let count = 0; count < Number(rounds) / 2; count += 1) {
    const order = count % 2 === 0 ? [true, false] : [false, true];
    const found = [];
    for (const asked of order) found.push(await round(asked));
    const [asked, alone] = order[0] ? found : found.toReversed();
    rates.push(alone);
    ratios.push(asked / alone);
  }
  download.destroy();
  const mean = (all) => all.reduce((sum, one) => sum + one, 0) / all.length;
  const deviation = Math.sqrt(mean(ratios.map((ratio) => (ratio - mean(ratios)) ** 2)) / (ratios.length - 1));
  ratios.sort((a, b) => a - b);
  const median = ratios[Math.floor(ratios.length / 2)];
  console.log(`goodput of a download while a page asks, over that while none does: median ${median.toFixed(3)}, mean ${mean(ratios).toFixed(3)} ± ${(2 * deviation).toFixed(3)} of ${ratios.length} pairs; alone ${mean(rates).toFixed(0)} Mbit/s`);

  await stand.browse();
  await measure('beside a browser without a page');
  const { page } = await stand.page();
  await page.goto(web.answer.url);
  await measure('with a page');
  await page.close();
  await measure('beside a browser that has closed it');
  console.log(`${stand.status().find((one) => one.role === 'connect').sessions[0].connections} connections`);
} finally {
  await stand.end();
  origin.close();
  origin.closeAllConnections();
}
