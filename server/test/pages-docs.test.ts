// The API reference in a real browser: it shows every operation of the document, finds them, and
// tries calls.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { routeIds } from "@slipway/contract/routes.ts";
import { startManagementApi } from "./support/management-api.ts";
import { openPages, withoutBrowser } from "./support/page-stage.ts";
import { until } from "./support/until.ts";

describe("the API reference in a browser", { skip: withoutBrowser }, () => {
  test("every operation is there, is found by words, and answers a call that is tried with a pasted token", async (t) => {
    const api = await startManagementApi(t);
    const open = await openPages(t, api.baseUrl);
    const page = await open("/docs");
    await page.shows(`${routeIds.length} of ${routeIds.length} operations`);
    await page.type("Search", "promotional APPLY");
    await page.shows(`1 of ${routeIds.length} operations`);
    await page.type("Search", "updateProject");
    await page.evaluate("document.querySelector('.operation:not([hidden])').open = true");
    await page.shows("Needs the permission projects.update in the project.");
    await page.shows("-H 'Content-Type: application/json'");
    await page.click("Try it");
    await page.type("project_id", api.projectId);
    const hostile = '<img src=x onerror="document.title=1">';
    await page.evaluate(
      `document.querySelector("textarea").value = ${JSON.stringify(JSON.stringify({ name: hostile }))}`,
    );
    await page.click("Send");
    await page.shows("Status 401");
    await page.type("Token for trying calls", api.token);
    await page.click("Send");
    await page.shows("Status 200");
    await page.shows("<img src=x onerror=");
    await page.click("Headers");
    await page.shows("content-type: application/json");
    assert.equal(
      await page.evaluate("document.querySelectorAll('img').length"),
      0,
      "an answer is only text",
    );
    assert.deepEqual(
      await page.evaluate("[localStorage.length, sessionStorage.length, document.cookie]"),
      [0, 0, ""],
    );
    assert.equal(await page.evaluate("document.querySelector('#token').type"), "password");
  });

  test("an address names an operation, and every one can be opened", async (t) => {
    const api = await startManagementApi(t);
    const open = await openPages(t, api.baseUrl);
    const page = await open("/docs#getAppLogs");
    await page.shows("As text/event-stream.");
    await page.evaluate(
      "for (const one of document.querySelectorAll('.operation')) one.open = true",
    );
    await until("all are made", async () => {
      return (await page.evaluate("document.querySelectorAll('.try').length")) === routeIds.length;
    });
    assert.equal(await page.evaluate("document.body.textContent.includes('undefined')"), false);
  });

  test("a phone shows it without scrolling sideways, in light and dark", async (t) => {
    const api = await startManagementApi(t);
    const open = await openPages(t, api.baseUrl);
    for (const isDark of [false, true]) {
      const page = await open("/docs#createGitApp", { width: 390, isDark });
      await page.shows("With curl");
      await page.click("Try it");
      const overhang = await page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth",
      );
      assert.ok(overhang <= 0, `${overhang} px too wide`);
    }
  });
});
