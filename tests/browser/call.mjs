// One end of a call in Chromium: the picture of a false camera, and a channel on which the end that offers sends numbered messages
// and the other one sends them back. Usage: node call.mjs offer|answer
// Each line of standard input is JSON and gets a line: a session description, "report" or "stop". The end of the input ends the call.
import { createInterface } from 'node:readline';
import { chromium } from 'playwright-core';

const offers = process.argv[2] === 'offer';
const say = (answer) => console.log(JSON.stringify(answer));
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', '--use-fake-device-for-media-stream', '--use-fake-ui-for-media-stream'],
});

/** Runs in the page. */
const prepare = async (offers) => {
  const call = new RTCPeerConnection();
  const seen = { messages: 0, answered: 0, in_order: true };
  // With the camera's permission, Chromium names its addresses.
  const camera = await navigator.mediaDevices.getUserMedia({ video: { width: 320, height: 240, frameRate: 15 } });
  for (const track of camera.getTracks()) call.addTrack(track, camera);
  call.ontrack = ({ streams }) => (document.querySelector('video').srcObject = streams[0]);
  const channel = call.createDataChannel('messages', { negotiated: true, id: 0 });
  let timer;
  channel.onopen = () => {
    if (offers) timer = setInterval(() => channel.send(String(seen.messages++)), 50);
  };
  channel.onmessage = ({ data }) => {
    if (!offers) return channel.send(data);
    seen.in_order &&= data === String(seen.answered);
    seen.answered += 1;
  };
  const described = async (description) => {
    await call.setLocalDescription(description);
    while (call.iceGatheringState !== 'complete') {
      await new Promise((done) => call.addEventListener('icegatheringstatechange', done, { once: true }));
    }
    return call.localDescription.toJSON();
  };
  window.offer = () => call.createOffer().then(described);
  window.take = async (description) => {
    await call.setRemoteDescription(description);
    return description.type === 'offer' ? call.createAnswer().then(described) : 'connecting';
  };
  window.stop = () => {
    clearInterval(timer);
    return seen;
  };
  window.report = async () => {
    const stats = [...(await call.getStats()).values()];
    const pair = stats.find(({ type, nominated, state }) => type === 'candidate-pair' && nominated && state === 'succeeded');
    const pictures = stats.find(({ type, kind }) => type === 'inbound-rtp' && kind === 'video')?.framesDecoded ?? 0;
    const remote = stats.find(({ id }) => id === pair?.remoteCandidateId)?.address;
    return { ...seen, pictures, remote, state: call.connectionState };
  };
};

try {
  const page = await browser.newPage();
  // A camera needs an origin that is trusted.
  await page.route('**/*', (route) => route.fulfill({ contentType: 'text/html', body: '<video autoplay muted></video>' }));
  await page.goto('https://call.example/');
  await page.evaluate(prepare, offers);
  if (offers) say(await page.evaluate(() => window.offer()));
  for await (const line of createInterface({ input: process.stdin })) {
    const question = JSON.parse(line);
    if (question === 'report') say(await page.evaluate(() => window.report()));
    else if (question === 'stop') say(await page.evaluate(() => window.stop()));
    else say(await page.evaluate((description) => window.take(description), question));
  }
} finally {
  await browser.close();
}
