// The dashboard of a real platform in a real browser: the way from a repository to a call and back
// to an earlier release, settings, logs, and what roles see. Without a Chromium on the machine
// these tests are skipped, and say so.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { Role } from "@slipway/contract/words.ts";
import "./support/leftovers.ts";
import { startDashboard } from "./support/dashboard-stage.ts";
import type { Page } from "./support/browser.ts";
import { deploy } from "./support/examples.ts";
import { startManagementApi } from "./support/management-api.ts";
import { openPages, withoutBrowser } from "./support/page-stage.ts";
import { until } from "./support/until.ts";

describe("the dashboard", { skip: withoutBrowser }, () => {
  test("leads from a repository through its build to a call, its run, and back to an earlier release", async (t) => {
    const { platform, openSignedIn } = await startDashboard(t);
    const page = await openSignedIn("/dashboard");
    await page.shows("No apps yet.");
    await page.type("Repository", "acme/examples");
    await page.type("Name of the app", "hello");
    await page.click("The app is in a folder of the repository");
    await page.type("Folder in the repository", "hello");
    await page.click("Deploy");
    await page.shows("Build #1");
    await page.shows("App started successfully!");
    await page.type("Search", "started successfully");
    await page.shows("1 of ");
    await page.click("Overview");
    await page.shows("v1");
    await page.type("Body", '{"name": "<b>Ada</b>"}');
    await page.click("Call");
    await page.shows("with the key bootstrap");
    await page.shows("Hello, <b>Ada</b>!");
    await page.click("Runs");
    await until("the call is listed", () =>
      page.evaluate(
        "[...document.querySelectorAll('tbody tr')].some((row) => /success/.test(row.textContent))",
      ),
    );
    const path = `/v2/projects/${platform.bootstrap.projectId}/apps/${platform.bootstrap.projectId}-hello`;
    const changed = await platform.api("PATCH", path, { cpu: 0.75 });
    assert.equal(changed.status, 200, JSON.stringify(changed.body));
    await page.click("Releases");
    await page.shows("v2");
    await page.click("Roll back to v1");
    await until(
      "the first release is live",
      async () => (await platform.api("GET", path)).body.liveRelease === 1,
    );
    await page.shows("Automatic deploys are paused.");
    await page.shows("Roll back to v2");
  });

  test("changes a setting after it has said what that takes, sets a secret, issues a token once, and deletes an app by its name", async (t) => {
    const { platform, openSignedIn } = await startDashboard(t);
    const { baseUrl, projectId } = platform.bootstrap;
    const { appId } = await deploy(platform, { name: "hello", gitPath: "hello" });
    const path = `/v2/projects/${projectId}/apps/${appId}`;
    const app = `/dashboard/projects/${projectId}/apps/${appId}`;
    const page = await openSignedIn(`${app}/settings?search=cooldown`);
    await page.click("Change");
    await page.type("cooldownPeriodSeconds", "-1");
    await page.click("See what it takes");
    await page.shows("cooldownPeriodSeconds is -1, but must be a number from 0 to 3600.");
    await page.type("cooldownPeriodSeconds", "20");
    await page.click("See what it takes");
    await page.click("Change it");
    const settingOf = async (): Promise<unknown> =>
      (await platform.api("GET", path)).body.settings.cooldownPeriodSeconds.value;
    await until("the setting is changed", async () => (await settingOf()) === 20);

    await page.click("Secrets");
    await page.type("Name", "API_TOKEN");
    await page.type("Value", "not for every eye");
    await page.click("Set");
    await page.shows("API_TOKEN");
    assert.deepEqual((await platform.api("GET", `${path}/secrets`)).body, {
      API_TOKEN: "not for every eye",
    });
    assert.equal((await page.text()).includes("not for every eye"), false);
    await page.click("Show");
    await page.shows("not for every eye");

    await page.goTo(`${baseUrl}/dashboard/projects/${projectId}/keys`);
    await page.click("New service account");
    await page.type("Name", "ci");
    await page.click("Create service account");
    await page.shows("It is shown only now");
    const token: string = await page.evaluate("document.querySelector('pre').textContent");
    const asked = await fetch(`${baseUrl}/v2/projects`, {
      headers: { authorization: `Bearer ${token}` },
    });
    assert.equal(asked.status, 200);
    await page.reload();
    await page.shows("ci");
    assert.equal((await page.text()).includes(token), false);

    await page.goTo(`${baseUrl}${app}/danger`);
    await page.type("Type hello to delete it", "hallo");
    const isOffered =
      "[...document.querySelectorAll('button')].some((one) => one.textContent === 'Delete the app' && !one.disabled)";
    assert.equal(await page.evaluate(isOffered), false);
    await page.type("Type hello to delete it", "hello");
    await page.click("Delete the app");
    await page.shows("No apps yet.");
    assert.equal((await platform.api("GET", path)).status, 404);
  });

  test("reads a log back to its first line, keeps what is read in place, and goes on at the end", async (t) => {
    const { platform, openSignedIn } = await startDashboard(t);
    const { appId, status } = await deploy(platform, { name: "noisy", gitPath: "noisy" });
    assert.equal(status, "success");
    const lines = 3_500;
    await (await platform.call("noisy", "run", { lines })).text();
    const page = await openSignedIn(
      `/dashboard/projects/${platform.bootstrap.projectId}/apps/${appId}/logs`,
    );
    await page.shows(`line ${lines - 1} of ${lines}`);
    assert.equal((await page.text()).includes(`line 0 of ${lines}`), false);
    const log = "document.querySelector('[role=log]')";
    await until("the first line is there", async () => {
      await page.evaluate(`${log}.scrollTop = 0`);
      return (await page.text()).includes(`line 0 of ${lines}`);
    });
    await page.evaluate(`${log}.scrollTop += 2000`);
    const inSight = `(${log}.scrollTop, [...${log}.querySelectorAll('bdi')].find((one) =>
      one.getBoundingClientRect().top > ${log}.getBoundingClientRect().top)?.textContent)`;
    await until(
      "the lines in sight are drawn",
      async () => !(await page.text()).includes(`line 0 of ${lines}`),
    );
    const read = await until("a line is read", () => page.evaluate(inSight));
    await (await platform.call("noisy", "run", { lines: 7 })).text();
    await page.click("To the end");
    await page.shows("line 6 of 7");
    await page.evaluate(`${log}.scrollTop = 2000`);
    await until(
      "the same lines are where they were",
      async () => (await page.evaluate(inSight)) === read,
    );
  });

  test("shows a role the pages that it may open, and says what it may not do", async (t) => {
    const api = await startManagementApi(t);
    await api.call("POST", `/v2/projects/${api.projectId}/apps/git`, {
      body: { name: "some-app", gitRepo: "a/b" },
    });
    const open = await openPages(t, api.baseUrl);
    const openAs = async (role: Role, path: string): Promise<Page> => {
      const page = await open(`/dashboard/projects/${api.projectId}${path}`);
      await page.click("Use a service account token");
      await page.type("Token", await api.issue({ kind: "service_account", role }));
      await page.click("Use this token");
      return page;
    };
    const tabs =
      "[...document.querySelectorAll('nav.tabs a')].map((link) => link.textContent).join()";
    const showsTabs = async (page: Page, names: string): Promise<void> =>
      void (await until(
        `the pages ${names} are shown`,
        async () => (await page.evaluate(tabs)) === names,
      ));
    const member = await openAs("member", "");
    await member.shows("some-app");
    await showsTabs(member, "Apps,Volumes,Secrets,Webhooks,Members,Settings");
    await member.click("some-app");
    await member.click("Danger");
    await member.shows("Your role does not allow you to delete apps.");
    const billing = await openAs("billing", "");
    await billing.shows("Usage");
    await showsTabs(billing, "Apps,Members,Usage,Billing,Settings");
    await billing.shows("apps.read");
    const owner = await openAs("owner", "");
    await owner.shows("some-app");
    await showsTabs(
      owner,
      "Apps,Volumes,Secrets,Webhooks,Members,API keys,Audit log,Usage,Billing,Settings",
    );
  });
});
