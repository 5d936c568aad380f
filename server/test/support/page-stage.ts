// Opens pages of a platform in a real browser, signs in, and checks that the content security
// policy holds.
import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import { findBrowser, startBrowser, type Look, type Page } from "./browser.ts";

const found = findBrowser();

/** Why there is no browser here, for the `skip` option of a test; false: there is one. */
export const withoutBrowser = "missing" in found ? found.missing : false;

/** Opens pages of the platform at `baseUrl`. */
export type OpenPage = (path: string, look?: Look) => Promise<Page>;

/**
 * Starts a browser for the test. After the test, no page may have violated the policy or had a
 * script error.
 */
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

/** Fills in and submits the sign-in form. */
export async function signInOn(
  page: Page,
  person: { readonly email: string; readonly password: string },
): Promise<void> {
  await page.type("Email", person.email);
  await page.type("Password", person.password);
  await page.click("Sign in");
}
