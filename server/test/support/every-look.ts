// Looks at pages of the dashboard in light, dark and on a phone: axe-core finds nothing, nothing is wider than the screen, and no
// text that somebody named has become code. Takes pictures for people who want them.
import assert from "node:assert/strict";
import type { Page } from "./browser.ts";
import { axeFindings, isWhole, looks, takePicture } from "./dashboard-stage.ts";
import type { OpenPage } from "./page-stage.ts";

/** One page: its address, a text that it shows when it is whole, and what is done to it before it is looked at. */
export type Sight = { readonly url: string; readonly text: string; readonly act?: (page: Page) => Promise<void> };

/** Looks at the page as a whole in one look; returns what axe-core finds. */
export async function lookAt(page: Page, name: string, look: string): Promise<string[]> {
  await isWhole(page);
  await takePicture(page, `${name}-${look}`);
  const overhang = await page.evaluate("document.documentElement.scrollWidth - innerWidth");
  assert.ok(overhang <= 0, `${name} is ${overhang} px too wide in ${look}`);
  assert.equal(await page.evaluate("window.hacked"), undefined, name);
  return (await axeFindings(page)).map((one) => `${name} ${look} ${one}`);
}

/** `open`: opens any page as somebody who is signed in. */
export async function lookAtAll(open: OpenPage, sights: Readonly<Record<string, Sight>>): Promise<void> {
  const findings: string[] = [];
  for (const [look, size] of Object.entries(looks)) {
    const page = await open("/dashboard", size);
    await page.shows("Sign out");
    for (const [name, { url, text, act }] of Object.entries(sights)) {
      await page.goTo(url);
      await page.shows(text);
      await act?.(page);
      findings.push(...(await lookAt(page, name, look)));
    }
  }
  assert.deepEqual(findings, []);
}
