// The pages of webhooks and of billing of a project in a real browser. Each change is made on the
// page and checked with the API. Without a Chromium on the machine these tests are skipped, and say
// so.
import "./support/leftovers.ts";
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { AppId } from "#lib/ids.ts";
import { spend } from "./budgets-stage.ts";
import { choose, clickNamed, hostileName, startProjectStage } from "./dashboard-project-stage.ts";
import { isWhole } from "./support/dashboard-stage.ts";
import type { Json } from "./support/management-api.ts";
import { withoutBrowser } from "./support/page-stage.ts";
import { until } from "./support/until.ts";
import { insertDelivery } from "./support/webhook-rows.ts";

const hour = 3_600_000;

describe("the page of webhooks", { skip: withoutBrowser }, () => {
  test("filters deliveries by state and endpoint, shows attempts, and replays one or many", async (t) => {
    const { api, call, pages, open } = await startProjectStage(t);
    const place = {
      db: api.db,
      projectId: api.projectId,
      appId: `${api.projectId}-my-app` as AppId,
    };
    const url = "https://example.org/<img/src=x/onerror=window.hacked='url'>";
    await insertDelivery(place, { url: "https://example.org/good", state: "delivered" });
    const old = await insertDelivery(place, { createdAt: new Date(Date.now() - 48 * hour) });
    for (let count = 0; count < 51; count++)
      await insertDelivery(place, { url, createdAt: new Date(Date.now() - hour) });
    const { id, endpointId } = await insertDelivery(place, { url });
    const page = await open(`${pages}/webhooks`);
    await page.shows("https://example.org/good");
    await choose(page, "State", "failed");
    await until(
      "only failed ones are listed",
      async () => !/delivered\tmy-app/.test(await page.text()),
    );
    await page.click("Older");
    await page.click("Newest");
    await page.goTo(`${api.baseUrl}${pages}/webhooks?state=failed&endpoint=${endpointId}`);
    await page.shows("All endpoints");
    await page.shows("https://example.org/hook");
    await isWhole(page);
    await until("it is the newest", async () => (await page.text()).includes(id.slice(-8)));
    await page.click(id.slice(-8));
    await page.shows("oh no");
    await page.shows("The receiver answered 500.");
    await page.click("Replay");
    const stateOf = async (one: string): Promise<string> =>
      (await call("GET", `/webhook-deliveries/${one}`)).item.state;
    await until("it is sent again", async () => (await stateOf(id)) === "pending");
    await page.goTo(`${api.baseUrl}${pages}/webhooks`);
    await page.shows("https://example.org/good");
    await isWhole(page);
    await page.click("Replay many");
    await page.click("Replay them");
    await page.shows("51 replayed.");
    assert.equal(await stateOf(old.id), "failed", "it is older than the chosen time");
    assert.equal(await page.evaluate("window.hacked"), undefined);
  });

  test("pauses and resumes an endpoint, chooses the schedule, and changes the signing secret over", async (t) => {
    const { api, call, pages, open } = await startProjectStage(t);
    const place = {
      db: api.db,
      projectId: api.projectId,
      appId: `${api.projectId}-my-app` as AppId,
    };
    await insertDelivery(place, { url: "https://example.org/hook", state: "delivered" });
    const page = await open(`${pages}/webhooks`);
    await clickNamed(page, "Pause https://example.org/hook");
    await page.click("Pause now");
    const pausedAt = async (): Promise<unknown> =>
      (await call("GET", "/webhook-endpoints")).items[0].pausedAt;
    await until("it is paused", async () => (await pausedAt()) !== null);
    await page.click("Resume");
    await until("it is resumed", async () => (await pausedAt()) === null);
    await choose(page, "Schedule of failed deliveries", "short");
    await until(
      "it is chosen",
      async () => (await call("GET", "/webhook-schedule")).schedule === "short",
    );

    const [first] = (await call("GET", "/webhook-secrets")) as Json[];
    assert.equal((await page.text()).includes(first.secret), false);
    await page.click("Rotate: a new secret");
    await choose(page, "The present secret stays valid for", "1");
    await page.click("Create secret");
    await page.shows("The new secret signs from now on.");
    const secrets = (await call("GET", "/webhook-secrets")) as Json[];
    assert.deepEqual([secrets.length, secrets[1].id], [2, first.id]);
    await page.shows(secrets[0].secret);
    await clickNamed(page, `Remove secret ${first.id}`);
    await page.click("Remove now");
    await until("one is left", async () => (await call("GET", "/webhook-secrets")).length === 1);
  });
});

describe("the page of billing", { skip: withoutBrowser }, () => {
  test("sets, shows and removes the budget of the project and of an app, and says why one is refused", async (t) => {
    const { api, call, pages, open } = await startProjectStage(t);
    await call("POST", "/apps/git", { name: "my-app", gitRepo: "a/b" });
    await spend(api.db, api, { cents: 950, month: new Date().toISOString().slice(0, 7) });
    const page = await open(`${pages}/billing`);
    await page.shows("The whole project");
    await isWhole(page);
    await clickNamed(page, "Set the budget of the whole project");
    await page.shows("No budget is set");
    await page.type("Amount for a month", "10.55");
    await page.type("Warn at percent", "50, many");
    await page.evaluate("document.querySelector('input[name=stop]').click()");
    await page.click("Set budget");
    await page.shows("warn_percent");
    await page.type("Warn at percent", "50, 90");
    await page.type("Webhook", "https://example.org/<b>budget</b>");
    await page.click("Set budget");
    await page.shows("(90 %)");
    await page.shows("https://example.org/<b>budget</b>");
    const { amount_cents, warn_percent, stop } = await call("GET", "/budget");
    assert.deepEqual([amount_cents, warn_percent, stop], [1_055, [50, 90], true]);

    await page.click("Close");
    await clickNamed(page, "Set the budget of my-app");
    await page.type("Amount for a month", "3");
    await page.click("Set budget");
    await page.shows("of $3.00 spent");
    await page.reload();
    const rowOf = (name: string) =>
      page.evaluate(`[...document.querySelectorAll("table[aria-label=Budgets] tr")]
      .find((row) => row.textContent.startsWith(${JSON.stringify(name)}))?.innerText ?? ""`);
    await until("both budgets and what is spent are in the table", async () => {
      const whole = await rowOf("The whole project");
      const own = await rowOf("my-app");
      return /\$10\.55\s+\$9\.50 \(90 %\)/.test(whole) && /\$3\.00\s+\$0\.00 \(0 %\)/.test(own);
    });
    const path = `/apps/${api.projectId}-my-app/budget`;
    assert.equal((await call("GET", path)).amount_cents, 300);
    await clickNamed(page, "Remove the budget of my-app");
    await page.click("Remove now");
    await until("it has none", async () => /none\s+\$0\.00\s+Set/.test(await rowOf("my-app")));
    assert.equal((await call("GET", "/budget")).amount_cents, 1_055);
    assert.equal((await api.call("GET", `/v2/projects/${api.projectId}${path}`)).status, 404);
  });

  test("shows a statement with its lines, saves it, and applies a coupon", async (t) => {
    const { api, call, pages, open } = await startProjectStage(t);
    const token = await api.issue({ kind: "operator" });
    const coupon = {
      code: "TEN",
      name: hostileName,
      coupon_type: "fixed_amount",
      amount_cents: 1_000,
      amount_currency: "USD",
    };
    const made = await api.call("POST", "/v2/operator/coupons", { token, body: coupon });
    assert.equal(made.status, 201, JSON.stringify(made.body));
    const month = new Date().toISOString().slice(0, 7);
    await spend(api.db, api, { cents: 1_234, app: "gone", month });
    const page = await open(`${pages}/billing`);
    await page.shows("No coupon is applied.");
    await isWhole(page);
    await page.type("Coupon code", "NOT THERE");
    await page.click("Apply coupon");
    await page.shows("There is no coupon with this code");
    await page.type("Coupon code", "TEN");
    await page.click("Apply coupon");
    await page.shows(hostileName);
    assert.equal((await call("GET", "/billing/coupons")).items.length, 1);
    await page.click(month);
    await page.shows(`Statement of ${month}`);
    await page.shows("gone");
    await page.shows("$12.34");
    const saved = await page.download(() => page.click("Save as CSV"));
    assert.equal(saved.name, `statement-${api.projectId}-${month}.csv`);
    assert.match(saved.bytes.toString(), /gone/);
    assert.equal(await page.evaluate("window.hacked"), undefined);
  });
});
