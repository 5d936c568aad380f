// The whole story of an app, told in the dashboard of a real platform: somebody new joins, deploys
// from git, calls, runs in the background with a webhook, pushes, watches the roll-out, rolls back,
// and deletes the app. Without a Chromium on the machine this test is skipped, and says so.
import assert from "node:assert/strict";
import { test } from "node:test";
import "./support/leftovers.ts";
import type { Page } from "./support/browser.ts";
import { isWhole } from "./support/dashboard-stage.ts";
import { cloneOf, type GitPusher } from "./support/git-pusher.ts";
import { openPages, withoutBrowser, type OpenPage } from "./support/page-stage.ts";
import { answering, openPushFixture, reportPushes } from "./support/pushed-app.ts";
import type { PlatformProcess } from "./support/platform-process.ts";
import { until } from "./support/until.ts";
import { startReceiver, type WebhookReceiver } from "./support/webhook-receiver.ts";

const person = { email: "grace@example.org", name: "Grace", password: "a few unusual words" };
const coupon = {
  code: "WELCOME",
  name: "Welcome",
  coupon_type: "fixed_amount",
  amount_cents: 500,
  amount_currency: "USD",
  frequency: "once",
};

test(
  "leads somebody new from the sign-in through an app's whole life",
  { skip: withoutBrowser },
  async (t) => {
    const { platform, server } = await openPushFixture(t);
    const { baseUrl, projectId } = platform.bootstrap;
    await server.createRepo("acme", "greeter", { "main.py": answering("first"), "README.md": "" });
    await makeCoupon(platform);
    const open = await openPages(t, baseUrl);
    const page = await joins(open, platform);
    const stage: Stage = {
      page,
      platform,
      path: `/v2/projects/${projectId}/apps/${projectId}-greeter`,
    };
    await deploysAndCalls(stage, await startReceiver(t));
    await reportPushes(t, { server, repo: "greeter", hook: await makesHook(stage) });
    await pushesAndRollsBack(stage, await cloneOf(t, server, "acme", "greeter"));
    await manages(stage);
    await deletes(stage);
  },
);

type Stage = {
  readonly page: Page;
  readonly platform: PlatformProcess;
  /** The path of the app in the API. */
  readonly path: string;
};

async function makeCoupon({ bootstrap }: PlatformProcess): Promise<void> {
  const made = await fetch(`${bootstrap.baseUrl}/v2/operator/coupons`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${bootstrap.operatorToken}`,
      "content-type": "application/json",
    },
    body: JSON.stringify(coupon),
  });
  assert.equal(made.status, 201, await made.text());
}

/** Accepts an invitation, signs out and in again; returns the page. */
async function joins(open: OpenPage, platform: PlatformProcess): Promise<Page> {
  const path = `/v2/projects/${platform.bootstrap.projectId}/invitations`;
  const { body } = await platform.api("POST", path, { email: person.email, role: "owner" });
  const page = await open(new URL(body.link).pathname);
  await page.type("Your name", person.name);
  await page.type("Password", person.password);
  await page.click("Join");
  await page.shows("No apps yet.");
  await page.click("Sign out");
  await page.type("Email", person.email);
  await page.type("Password", person.password);
  await page.click("Sign in");

  return page;
}

async function deploysAndCalls({ page }: Stage, receiver: WebhookReceiver): Promise<void> {
  await page.type("Repository", "acme/greeter");
  await page.type("Name of the app", "greeter");
  await page.click("Deploy");
  await page.shows("App started successfully!");

  await page.click("Overview");
  await page.click("Call");
  await page.shows('"first"');
  await page.type(
    "Path and query",
    `/run?async=true&webhookEndpoint=${encodeURIComponent(receiver.url)}`,
  );
  await page.click("Call");
  await page.shows("202");
  await until("the webhook has come", () => receiver.received.length > 0);
  assert.match(receiver.received[0]?.body.toString() ?? "", /first/);
  await page.click("Runs");
  await page.shows("async");
  await until("both runs have succeeded", async () => (await rows(page, "success")) === 2);
}

/** Makes the hook, as somebody copies its address and secret to a git host. */
async function makesHook({
  page,
}: Stage): Promise<{ readonly url: string; readonly secret: string }> {
  await page.click("Git");
  await page.click("Make a hook address");
  await page.shows("It is shown only now");
  await page.shows("Just the push event");
  const [url = "", secret = ""] = (await page.evaluate(
    "[...document.querySelectorAll('pre')].map((one) => one.textContent)",
  )) as string[];
  return { url, secret };
}

async function pushesAndRollsBack(
  { page, platform, path }: Stage,
  clone: GitPusher,
): Promise<void> {
  await page.click("Settings");
  await page.type("Search", "rollOutDuration");
  await page.click("Change");
  await page.type("rollOutDurationSeconds", "600");
  await page.click("See what it takes");
  await page.click("Change it");
  await until("roll-outs take ten minutes", async () => {
    const { settings } = (await platform.api("GET", path)).body;
    return settings.rollOutDurationSeconds.value === 600;
  });
  const before: number = (await platform.api("GET", path)).body.liveRelease;

  await clone.commit({ "main.py": answering("second") }, "Answer second");
  await clone.git("push", "--quiet", "origin", "main");
  await page.click("Git");
  await until("the push is built", async () => (await rows(page, "built")) === 1);
  assert.equal(await rows(page, "Answer second"), 1);
  await page.click("Releases");
  await until("the roll-out has begun", async () => (await page.text()).includes("Roll-out of v"), {
    deadlineMs: 90_000,
  });
  await page.shows("Answer second");
  await page.click("Give it all calls now");
  await until(
    "the push is live",
    async () => (await platform.api("GET", path)).body.liveRelease > before,
  );
  await page.click("Overview");
  await page.click("Call");
  await page.shows('"second"');
  await page.click("Releases");
  // What is said of it above the list goes, and the list moves.
  await until("the roll-out is over", async () => !(await page.text()).includes("Roll-out of v"));
  await isWhole(page);
  await page.click(`Roll back to v${before}`);
  await page.shows("Automatic deploys are paused.");
  await page.click("Overview");
  // The release before answers until a replica of this one is ready.
  await until("the earlier release answers", async () => {
    await page.click("Call");
    return (await page.text()).includes('"first"');
  });
}

/** Reads the audit log, makes a key that calls the app, and applies a coupon. */
async function manages({ page, platform }: Stage): Promise<void> {
  const { baseUrl, projectId } = platform.bootstrap;
  await page.click("default");
  await page.click("Audit log");
  await page.shows("app.rollback");
  await page.shows(person.name);
  await page.click("API keys");
  await page.shows("Keys for calling apps");
  await isWhole(page);
  await page.click("New key for calling apps");
  await page.type("Name", "phone");
  await page.click("Create key");
  await page.shows("It is shown only now");
  const key: string = await page.evaluate("document.querySelector('pre').textContent");
  const called = await fetch(`${baseUrl}/v4/${projectId}/greeter/run`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: "{}",
  });
  assert.equal(((await called.json()) as { result: unknown }).result, "first");
  await page.click("Billing");
  await page.shows("No coupon is applied.");
  await isWhole(page);
  await page.type("Coupon code", "WELCOME");
  await page.click("Apply coupon");
  await page.shows("Welcome");
}

async function deletes({ page, platform, path }: Stage): Promise<void> {
  await page.click("Apps");
  await page.click("greeter");
  await page.click("Danger");
  await page.type("Type greeter to delete it", "greeter");
  await page.click("Delete the app");
  await page.shows("No apps yet.");
  assert.equal((await platform.api("GET", path)).status, 404);
}

/** How many rows of the page's table have this text. */
function rows(page: Page, text: string): Promise<number> {
  return page.evaluate(
    `[...document.querySelectorAll("tbody tr")].filter((row) => row.textContent.includes(${JSON.stringify(text)})).length`,
  ) as Promise<number>;
}
