// Loads a page in Chromium, and then its files piece-0 to piece-(PIECES - 1), one after the other. Prints the SHA-256 of each and the
// protocol of every request as JSON. Usage: node load.mjs URL PIECES SPKI [PROXY]
// SPKI is the SHA-256 of the server's public key in base64. Without PROXY the server is asked over QUIC only.
import { chromium } from 'playwright-core';

const [url, pieces, spki, proxy] = process.argv.slice(2);
const way = proxy ? `--proxy-server=${proxy}` : `--origin-to-force-quic-on=${new URL(url).host}`;
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', `--ignore-certificate-errors-spki-list=${spki}`, way],
});
try {
  const page = await browser.newPage();
  // When an interface of the machine changes, Chromium itself ends what it is reading.
  const changed = 'net::ERR_NETWORK_CHANGED';
  const failures = [];
  page.on('requestfailed', (request) => failures.push(request.failure().errorText));
  await page.goto(url, { timeout: 60000 });
  const seen = await page.evaluate(async (pieces) => {
    const hashes = [];
    for (let piece = 0; piece < pieces; piece += 1) {
      let bytes;
      for (let attempt = 1; !bytes && attempt <= 10; attempt += 1) {
        const answer = fetch(`piece-${piece}`, { cache: 'no-store' });
        bytes = await answer.then((answer) => answer.arrayBuffer()).catch(() => undefined);
      }
      const hash = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));
      hashes.push(Array.from(hash, (byte) => byte.toString(16).padStart(2, '0')).join(''));
    }
    const entries = ['navigation', 'resource'].flatMap((kind) => performance.getEntriesByType(kind));
    const own = entries.filter((entry) => entry.responseStatus === 200);
    return { hashes, protocols: own.map((entry) => entry.nextHopProtocol) };
  }, Number(pieces));
  const other = failures.filter((failure) => failure !== changed);
  if (other.length > 0) throw new Error(other.join(', '));
  console.log(JSON.stringify(seen));
} finally {
  await browser.close();
}
