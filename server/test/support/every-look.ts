// Looks at pages of the dashboard in light, dark and on a phone: axe-core finds nothing, nothing is
// wider than the screen, and no text that somebody named has become code. Takes pictures for people
// who want them.
import assert from "node:assert/strict";
import type { Page } from "./browser.ts";
import { axeFindings, isWhole, looks, takePicture } from "./dashboard-stage.ts";
import { until } from "./until.ts";

/**
 * One page: its address, a text that it shows when it is whole, and what is done to it before it is
 * looked at.
 */
export type Sight = {
  readonly url: string;
  readonly text: string;
  readonly act?: (page: Page) => Promise<void>;
};

/** Looks at the page as a whole in one look; returns what axe-core finds. */
export async function lookAt(page: Page, name: string, look: string): Promise<string[]> {
  await isWhole(page);
  await takePicture(page, `${name}-${look}`);
  const overhang = await page.evaluate(
    "document.documentElement.scrollWidth - document.documentElement.clientWidth",
  );
  assert.ok(overhang <= 0, `${name} is ${overhang} px too wide in ${look}`);
  assert.equal(await page.evaluate("window.hacked"), undefined, name);
  return (await axeFindings(page)).map((one) => `${name} ${look} ${one}`);
}

/** No color is on its way to another one while axe-core looks at it. */
const noTransitions = `{
  const sheet = new CSSStyleSheet();
  sheet.replaceSync("*, *::before, *::after { transition: none !important; }");
  document.adoptedStyleSheets.push(sheet);
}`;
const schemeOf = "document.documentElement.dataset.mantineColorScheme";

/**
 * Looks at each page in each look. A page is loaded once; `act` is done to it in the light one.
 * `page` is one of somebody who is signed in.
 */
export async function lookAtAll(
  page: Page,
  sights: Readonly<Record<string, Sight>>,
): Promise<void> {
  const findings: string[] = [];
  for (const [name, { url, text, act }] of Object.entries(sights)) {
    await page.goTo(url);
    for (const screen of [looks.phone, looks.dark, looks.light]) {
      await page.turnTo(screen);
      await page.shows(text);
    }
    await act?.(page);
    await page.evaluate(noTransitions);
    for (const [look, screen] of Object.entries(looks)) {
      await page.turnTo(screen);
      const scheme = look === "dark" ? "dark" : "light";
      await until(`the page is ${scheme}`, async () => (await page.evaluate(schemeOf)) === scheme);
      findings.push(...(await lookAt(page, name, look)));
    }
  }
  assert.deepEqual(findings, []);
}
