// Looks at pages of the dashboard in light, dark and on a phone: axe-core finds nothing, nothing is wider than the screen, and no
// text that somebody named has become code. Takes pictures for people who want them.
import assert from "node:assert/strict";
import type { Page } from "./browser.ts";
import { axeFindings, isWhole, takePicture } from "./dashboard-stage.ts";
import type { OpenPage } from "./page-stage.ts";

const looks = {
  light: { width: 1280 },
  dark: { width: 1280, isDark: true },
  phone: { width: 375 },
} as const;

/** One page: its address, a text that it shows when it is whole, and what is done to it before it is looked at. */
export type Sight = { readonly url: string; readonly text: string; readonly act?: (page: Page) => Promise<void> };

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
      await isWhole(page);
      await takePicture(page, `${name}-${look}`);
      findings.push(...(await axeFindings(page)).map((one) => `${name} ${look} ${one}`));
      const overhang = await page.evaluate("document.documentElement.scrollWidth - innerWidth");
      assert.ok(overhang <= 0, `${name} is ${overhang} px too wide in ${look}`);
      assert.equal(await page.evaluate("window.hacked"), undefined, name);
    }
  }
  assert.deepEqual(findings, []);
}
