// Accessibility of a page by axe-core, in its light and its dark colours: the rules of WCAG 2.2 A and AA that a program can judge.
import axe from 'axe-core';
import { fail } from './stand.mjs';

const RULES = { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'] };

/** Fails with every violation in the page and in its frames. */
export async function accessible(page, name) {
  await judges(page.context().browser());
  const { found, passes } = await judged(page);
  if (found.length > 0) fail(`${name}:\n${found.join('\n')}`);
  console.log(`${name}: no violation of WCAG A and AA that axe-core knows, ${passes} rules passed`);
}

/** A page with two faults has two violations in each colour scheme. */
async function judges(browser) {
  const page = await browser.newPage();
  await page.setContent('<!doctype html><html lang="en"><title>x</title><main style="color:#aaa;background:#fff">faint<button></button></main>');
  const { found } = await judged(page);
  if (found.length !== 4) fail(`of four violations axe-core found ${found.length}`);
  await page.close();
}

async function judged(page) {
  const found = [];
  let passes = 0;
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme });
    for (const frame of page.frames()) {
      // Playwright's evaluation is not subject to the page's policy.
      await frame.evaluate(axe.source);
      const result = await frame.evaluate((rules) => window.axe.run(document, rules), RULES);
      passes += result.passes.length;
      for (const { id, help, nodes } of result.violations) {
        for (const node of nodes) found.push(`${colorScheme}: ${id} (${help}): ${node.html.slice(0, 200)}: ${node.failureSummary.replaceAll('\n', ' ')}`);
      }
    }
  }
  await page.emulateMedia({ colorScheme: 'light' });
  return { found, passes };
}
