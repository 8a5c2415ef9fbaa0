// Opens a page with dash.js in Chromium and waits until it has played so many seconds. Fails on a stall or an error.
// Usage: node play.mjs URL SECONDS [SPKI]
// With SPKI, the SHA-256 of the server's public key in base64, everything must come over HTTP/3 from that server.
import { chromium } from 'playwright-core';

const [url, seconds, spki] = [process.argv[2], Number(process.argv[3]), process.argv[4]];
// Chromium takes a certificate that no authority signed over QUIC only from an origin that it is told to use QUIC with.
const http3 = spki && [
  `--origin-to-force-quic-on=${new URL(url).host}`,
  `--ignore-certificate-errors-spki-list=${spki}`,
];
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--autoplay-policy=no-user-gesture-required', '--disable-gpu', ...(http3 ?? [])],
});
let failure = null;
try {
  const page = await browser.newPage();
  const console_ = [];
  page.on('console', (message) => console_.push(message.text()));
  page.on('pageerror', (error) => console_.push(String(error)));
  await page.goto(url);
  const enough = page.waitForFunction((s) => window.played() >= s || window.seen.errors.length > 0, seconds, {
    timeout: (seconds + 30) * 1000,
    polling: 250,
  });
  await enough.catch((error) => (failure = `${error.message.split('\n')[0]}; ${console_.slice(-5).join('; ')}`));
  const seen = await page.evaluate(() => ({ ...window.seen, played: window.played() }));
  console.log(`played ${seen.played.toFixed(1)} s, ${seen.stalls} stalls, ${seen.errors.length} errors`);
  if (seen.errors.length > 0) failure = seen.errors.join('; ');
  if (seen.stalls > 0) failure = `${seen.stalls} stalls`;
  if (seen.played < seconds) failure ??= `only ${seen.played} s were played`;
  if (http3) {
    const protocols = await page.evaluate(() => {
      const entries = ['navigation', 'resource'].flatMap((kind) => performance.getEntriesByType(kind));
      return entries.filter((entry) => entry.name.startsWith('https:')).map((entry) => entry.nextHopProtocol);
    });
    console.log(`${protocols.length} requests over ${[...new Set(protocols)].join(', ')}`);
    if (protocols.length === 0 || protocols.some((protocol) => protocol !== 'h3')) failure ??= 'not over HTTP/3';
  }
} finally {
  await browser.close();
}
if (failure) {
  console.error(`failed: ${failure}`);
  process.exit(1);
}
