// Processor time that the page of `tributary status --web` costs with many open connections: of each program, with and without a
// page, as a share of one core. Usage, in a network namespace of its own: node cost.mjs PROGRAM [CONNECTIONS] [SECONDS]
import { readFileSync } from 'node:fs';
import { createServer, get } from 'node:http';
import { Stand, sleep } from './stand.mjs';

const [program, connections = '1000', seconds = '15'] = process.argv.slice(2);
const stand = new Stand(program);
/** Milliseconds of processor time; the kernel counts in hundredths of a second. */
const used = ({ pid }) => {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ');
  return 10 * (Number(fields[11]) + Number(fields[12]));
};
// Each connection carries a little every second.
const origin = createServer((_, answer) => {
  const timer = setInterval(() => answer.write('a little data\n'), 1000);
  answer.on('close', () => clearInterval(timer));
});
try {
  await new Promise((done) => origin.listen(0, '127.0.0.1', done));
  const keys = stand.keys();
  const target = `127.0.0.1:${origin.address().port}`;
  const server = await stand.start('serve', '--listen', '10.9.9.1:0', '--forward', target, ...keys.server);
  const paths = stand.paths(server.answer.listening[0]).flatMap((radio) => ['--path', radio]);
  const client = await stand.start('connect', ...paths, '--listen', '127.0.0.1:0', ...keys.client);
  const port = client.answer.listening[0].split(':')[1];
  const open = () => get({ host: '127.0.0.1', port, agent: false }, (answer) => answer.resume()).on('error', () => {});
  Array.from({ length: Number(connections) }, open);
  const web = await stand.start('status', '--web');
  const measure = async (name) => {
    await sleep(5000);
    const programs = { serve: server.child, connect: client.child, status: web.child };
    const before = Object.values(programs).map(used);
    const began = Date.now();
    await sleep(1000 * Number(seconds));
    const passed = Date.now() - began;
    const shares = Object.entries(programs).map(([role, child], at) => `${role} ${((100 * (used(child) - before[at])) / passed).toFixed(2)} %`);
    console.log(`${name}: ${shares.join(', ')}`);
  };
  await measure('without a page');
  await stand.browse();
  const { page } = await stand.page();
  await page.goto(web.answer.url);
  await measure('with a page');
  console.log(`${stand.status().find((one) => one.role === 'connect').sessions[0].connections} connections`);
} finally {
  await stand.end();
  origin.close();
  origin.closeAllConnections();
}
