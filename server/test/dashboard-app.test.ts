// The pages of an app and the list of apps in a real browser: what is done on them is checked with
// the API. Without a Chromium on the machine these tests are skipped, and say so.
import "./support/leftovers.ts";
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { addApp, fillApp, hostileText } from "./dashboard-app-stage.ts";
import { choose, clickNamed, startProjectStage } from "./dashboard-project-stage.ts";
import { isWhole } from "./support/dashboard-stage.ts";
import { lookAtAll, type Sight } from "./support/every-look.ts";
import { withoutBrowser } from "./support/page-stage.ts";
import { until } from "./support/until.ts";

/** What the rows of the page's tables say. */
const rowTexts = "[...document.querySelectorAll('tbody tr')].map((row) => row.innerText)";

describe("the page of git", { skip: withoutBrowser }, () => {
  test("sets and removes a credential, says why one is refused, and replays a delivery", async (t) => {
    const stage = await startProjectStage(t);
    const { api, call, pages, open } = stage;
    const { failedDelivery } = await fillApp(stage);
    const page = await open(`${pages}/apps/my-app/git`);
    await page.shows("each push to the branch");
    await page.shows("branch other is not main");
    await page.shows("The host was not told: answered 403");
    await page.click("Replay");
    const newest = async () => (await call("GET", "/apps/my-app/git-deliveries")).items[0];
    await until("it is judged again", async () =>
      [failedDelivery].includes((await newest()).replayOf),
    );
    await page.shows("replayed");

    await page.click("Credentials for private repositories");
    await page.shows("None is set");
    await page.type("Host", "https://github.com/");
    await page.type("Token", "ghp_secret");
    await page.click("Set it");
    await page.shows("host must be a host name such as github.com");
    await page.type("Host", "github.com");
    await page.click("Set it");
    await page.shows("The credential for github.com is set");
    const [{ host, kind, username }] = await call("GET", "/git-credentials");
    assert.deepEqual([host, kind, username], ["github.com", "token", null]);
    assert.equal((await page.text()).includes("ghp_secret"), false);
    await choose(page, "Kind", "ssh_key");
    await page.type("Host", "git.example.org:2222");
    await page.type("User name", "deploy");
    await page.type(
      "Private key",
      "-----BEGIN OPENSSH PRIVATE KEY-----\nYWJj\n-----END OPENSSH PRIVATE KEY-----\n",
    );
    await page.click("Set it");
    await page.shows("git.example.org:2222");
    await clickNamed(page, "Remove the credential of github.com");
    await page.click("Remove now");
    await until("one is left", async () => (await call("GET", "/git-credentials")).length === 1);

    await stage.addMember({ email: "member@example.test", name: "Mo", role: "member" });
    const member = await stage.openAs("member@example.test", `${pages}/apps/my-app/git`);
    await member.click("Credentials for private repositories");
    await member.shows("git.example.org:2222");
    await member.shows("Your role does not allow you to set or remove credentials.");
    assert.equal(/^(?:Set it|Remove)$/m.test(await member.text()), false);

    await call("POST", "/apps", { name: "uploaded" });
    await page.goTo(`${api.baseUrl}${pages}/apps/uploaded/git`);
    await page.shows("nothing: the app has no repository");
    await page.shows("To deploy its pushes, set gitRepo on the page Settings.");
    assert.equal(/Hook|Deliveries|Make a hook address/.test(await page.text()), false);

    await page.goTo(`${api.baseUrl}${pages}/apps/paused/releases`);
    await page.shows("Resume automatic deploys");
    await isWhole(page);
    const gap: number = await page.evaluate(`(() => {
      const button = [...document.querySelectorAll("main button")].find((one) => one.textContent === "Resume automatic deploys");
      return document.querySelector("main .empty, main .scroll").getBoundingClientRect().top - button.getBoundingClientRect().bottom;
    })()`);
    assert.ok(gap >= 12, `${gap} px between the button and the list`);
    await page.goTo(`${api.baseUrl}${pages}/apps/paused/git`);
    await page.click("Resume automatic deploys");
    const pausedAt = async (): Promise<unknown> =>
      (await call("GET", "/apps/paused")).autoDeployPausedAt;
    await until("they are resumed", async () => (await pausedAt()) === null);
    assert.equal(await page.evaluate("window.hacked"), undefined);
  });
});

describe("the pages of an app on a phone", { skip: withoutBrowser }, () => {
  test("show all cells of a row, each with its head, without scrolling sideways", async (t) => {
    const stage = await startProjectStage(t);
    const { api, pages, open } = stage;
    await fillApp(stage);
    const phone = await open(pages, { width: 375 });
    await phone.shows("All others");
    const app = `${api.baseUrl}${pages}/apps/my-app`;
    const places: Record<string, string> = {
      Apps: api.baseUrl + pages,
      Runs: `${app}/runs`,
      Builds: `${app}/builds`,
      Releases: `${app}/releases`,
      Replicas: `${app}/replicas`,
    };
    for (const [label, url] of Object.entries(places)) {
      await phone.goTo(url);
      await phone.shows(label);
      const list = `document.querySelector('.scroll[aria-label=${label}]')`;
      await until(`${label} are shown`, () => phone.evaluate(`${list} !== null`));
      await isWhole(phone);
      assert.ok(await phone.evaluate(`${list}.scrollWidth <= ${list}.clientWidth`), `${label} fit`);
      const unseen: string[] = await phone.evaluate(`[...${list}.querySelectorAll("tbody td")]
        .filter((cell) => cell.textContent !== "")
        .filter((cell) => cell.getBoundingClientRect().right > document.documentElement.clientWidth || cell.offsetHeight === 0)
        .map((cell) => cell.textContent)`);
      assert.deepEqual(unseen, [], label);
      const head = await phone.evaluate(
        `getComputedStyle(${list}.querySelector("td:nth-child(2)"), "::before").content`,
      );
      assert.equal(head, label === "Builds" ? '"Status"' : '"State"');
    }
  });
});

describe("the page of runs", { skip: withoutBrowser }, () => {
  test("shows where the time of a run went, its lines and its result, cancels one and runs one again", async (t) => {
    const stage = await startProjectStage(t);
    const { api, call, pages, open } = stage;
    const { coldRun, deadRun, pendingRun } = await fillApp(stage);
    const runs = `${pages}/apps/my-app/runs`;
    const page = await open(`${runs}?run=${coldRun}`);
    await page.shows("a warning");
    const phases =
      "[...document.querySelectorAll('.timeline li')].map((one) => one.innerText.replace(/\\s+/g, ' '))";
    assert.deepEqual(await page.evaluate(phases), [
      "Waited 5.0 s",
      "In line 1 min 45 s",
      "Cold start 30.0 s",
      "Ran 1 min 0 s",
      "In all 3 min 20 s",
    ]);
    await page.click("Show the result");
    await page.shows('{"result":');
    await page.click("Its log alone");
    await page.shows("begins");
    assert.match(await page.evaluate("location.search"), new RegExp(coldRun));

    await page.goTo(`${api.baseUrl}${runs}?run=${deadRun}`);
    await page.shows("attempt 3");
    await page.click("Run it again");
    const stateOf = async (id: string) => (await call("GET", `/apps/my-app/runs/${id}`)).item;
    await until("there is another run", async () => (await stateOf(deadRun)).redrivenAs !== null);
    await page.goTo(`${api.baseUrl}${runs}?run=${pendingRun}`);
    await page.click("Cancel the run");
    await until("it is cancelled", async () => (await stateOf(pendingRun)).status === "cancelled");
    assert.equal(await page.evaluate("window.hacked"), undefined);
  });
});

describe("the charts of an app", { skip: withoutBrowser }, () => {
  test("tell calls, errors, latency and cold starts, and the list of apps asks only for those in sight", async (t) => {
    const stage = await startProjectStage(t, { settings: { requestsPerMinute: 10_000 } });
    const { api, pages, open } = stage;
    await fillApp(stage);
    const page = await open(`${pages}/apps/my-app`);
    for (const title of [
      "Calls",
      "Errors (5xx): status",
      "Latency, with",
      "Replicas",
      "Cold starts",
    ])
      await page.shows(title);
    await until("five charts are drawn", () =>
      page.evaluate("document.querySelectorAll('.recharts-surface').length >= 5"),
    );
    await choose(page, "Charts of", "day");
    await until("the address says so", () => page.evaluate("location.search === '?range=day'"));

    const names = Array.from({ length: 60 }, (_, at) => `other-${at}`);
    for (const name of names) await addApp(stage, name);
    await page.goTo(api.baseUrl + pages);
    await page.shows("Needs attention");
    await page.shows("$12.34 of the budget of $10.00 are spent");
    await page.evaluate("document.querySelector('[aria-label=Apps]').scrollIntoView()");
    const row = `${rowTexts}.find((text) => text.startsWith('my-app'))`;
    await until("the calls of the hour are told", async () =>
      /\s180\s+20\s/.test((await page.evaluate(row)) ?? ""),
    );
    const asked = `new Set(performance.getEntriesByType("resource").map((one) => one.name.match(/apps\\/([^/]+)\\/resource-metrics/)?.[1]).filter(Boolean)).size`;
    const atFirst: number = await page.evaluate(asked);
    assert.ok(atFirst >= 2 && atFirst < 40, `${atFirst} apps were asked for at first`);
    await page.evaluate("scrollTo(0, document.body.scrollHeight)");
    await until(
      "those further down are asked for",
      async () => (await page.evaluate(asked)) > atFirst,
    );
    const first: string = await page.evaluate(`${rowTexts}[0]`);
    assert.match(first, /^a-broken-one/);
  });
});

describe("the pages of releases and replicas", { skip: withoutBrowser }, () => {
  test("steer a roll-out, compare the settings of two releases, and say what each replica is of", async (t) => {
    const stage = await startProjectStage(t);
    const { api, call, pages, open } = stage;
    await fillApp(stage);
    const page = await open(`${pages}/apps/my-app/releases`);
    await page.shows("Roll-out of v2");
    await page.click("Pause");
    await page.shows("when it is resumed");
    await page.click("Resume");
    await until(
      "it goes on",
      async () => (await call("GET", "/apps/my-app/rollout")).state === "running",
    );
    await page.shows("scalingMetric");
    const differences: string[] = await page.evaluate(
      "[...document.querySelectorAll('table[aria-label=Differences] tbody code')].map((one) => one.innerText)",
    );
    assert.deepEqual(differences, ["cpu", "entrypoint", "scalingMetric"]);
    await choose(page, "From", "2");
    await page.shows("It is the same release.");
    await page.click("Roll it back");
    await page.shows("The roll-out of v2 ended");

    await page.goTo(`${api.baseUrl}${pages}/apps/my-app/replicas`);
    await page.shows("local/here");
    await isWhole(page);
    await until("the replica's release is named", async () => {
      const [ready = ""]: string[] = await page.evaluate(rowTexts);
      return /running.*v1.*local\/here/s.test(ready);
    });
    await page.shows("The app ended with exit code 3.");
    await page.shows("1 min 30 s");
  });
});

describe("the pages of an app", { skip: withoutBrowser }, () => {
  test("hold hostile and long names in every look, and axe finds nothing", async (t) => {
    const stage = await startProjectStage(t, {
      waitReason: (app) =>
        app.endsWith("-waits") ? `It crashed five times in a row. ${hostileText}` : undefined,
    });
    const { api, pages, open } = stage;
    const { coldRun, deadRun } = await fillApp(stage);
    const app = `${api.baseUrl}${pages}/apps/my-app`;
    const sights: Record<string, Sight> = {
      home: { url: api.baseUrl + pages, text: "The latest build failed." },
      "home-further-down": {
        url: api.baseUrl + pages,
        text: "All others",
        act: async (page) => {
          await page.evaluate("document.querySelector('[aria-label=Apps]').scrollIntoView()");
          await page.shows("180");
        },
      },
      overview: { url: app, text: "Cold starts" },
      charts: {
        url: app,
        text: "Cold starts",
        act: (page) => page.evaluate("document.querySelector('.charts').scrollIntoView()"),
      },
      program: {
        url: app,
        text: "Cold starts",
        act: async (page) => {
          await page.evaluate("document.querySelector('input[value=Async]').click()");
          await page.evaluate("document.querySelector('input[value=Python]').click()");
          await page.shows("urllib");
        },
      },
      git: { url: `${app}/git`, text: "answered 403" },
      credentials: {
        url: `${app}/git`,
        text: "answered 403",
        act: async (page) => {
          await page.click("Credentials for private repositories");
          await page.shows("Set a credential");
          await page.evaluate("document.querySelector('details form').scrollIntoView()");
        },
      },
      runs: { url: `${app}/runs`, text: "async" },
      "cold-run": { url: `${app}/runs?run=${coldRun}`, text: "a warning" },
      "dead-run": { url: `${app}/runs?run=${deadRun}`, text: "attempt 3" },
      releases: { url: `${app}/releases`, text: "scalingMetric" },
      compare: {
        url: `${app}/releases`,
        text: "scalingMetric",
        act: (page) =>
          page.evaluate("document.querySelector('[aria-label=Differences]').scrollIntoView()"),
      },
      replicas: { url: `${app}/replicas`, text: "local/here" },
      "paused-git": { url: `${api.baseUrl}${pages}/apps/paused/git`, text: "Make a hook address" },
      "idle-overview": { url: `${api.baseUrl}${pages}/apps/paused`, text: "Nothing was measured" },
    };
    const reader = await open("/dashboard");
    await reader.shows("Sign out");
    await lookAtAll(reader, sights);
  });
});
