// Pages of a platform in a real browser: opened, signed in to, and held to their policy.
import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import { findBrowser, startBrowser, type Page } from "./browser.ts";

const found = findBrowser();

/** Why pages cannot be looked at here; false: they can. For the option `skip` of tests. */
export const withoutBrowser = "missing" in found ? found.missing : false;

/** Opens pages of the platform at `baseUrl`. */
export type OpenPage = (path: string, look?: { readonly isDark?: boolean; readonly width?: number }) => Promise<Page>;

/** Starts a browser for the test. At its end no page may have breached the policy or failed in a script. */
export async function openPages(t: TestContext, baseUrl: string): Promise<OpenPage> {
  assert.ok("program" in found);
  const browser = await startBrowser(t, found.program);
  const pages: Page[] = [];
  t.after(() =>
    assert.deepEqual(
      pages.flatMap((page) => page.complaints),
      [],
    ),
  );
  return async (path, look = {}) => {
    const page = await browser.open(look);
    pages.push(page);
    await page.goTo(baseUrl + path);
    return page;
  };
}

/** Fills in the sign-in form and sends it. */
export async function signInOn(
  page: Page,
  person: { readonly email: string; readonly password: string },
): Promise<void> {
  await page.type("Email", person.email);
  await page.type("Password", person.password);
  await page.click("Sign in");
}
