// The operator's pages of the dashboard, in a real browser: projects and their plans, coupons,
// tokens, links for people who cannot sign in, and the platform; and that nobody else is offered
// them.
import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test, type TestContext } from "node:test";
import "./support/leftovers.ts";
import { choose } from "./dashboard-project-stage.ts";
import { axeFindings, takePicture } from "./support/dashboard-stage.ts";
import { lookAtAll } from "./support/every-look.ts";
import type { Page } from "./support/browser.ts";
import { temporaryFolder } from "./support/folder.ts";
import type { Json } from "./support/management-api.ts";
import { openPages, withoutBrowser, type OpenPage } from "./support/page-stage.ts";
import { startPlatformOnTestServer } from "./support/platform-on-test-server.ts";
import { until } from "./support/until.ts";

const hostileName = `<img src=x onerror="window.hacked=1"> ${"long".repeat(10)}`;

const plans = `
default = "hobby"
[plans.hobby]
apps = 2
replicas = 5
gpus = 0
`;

const pools = `
[[pools]]
name = "everywhere"
cores = 4
memory_gb = 16
[[pools.gpus]]
compute = "ADA_L4"
count = 2

[[pools]]
name = "${"a-long-name-".repeat(4)}x"
provider = "local"
region = "eu-north-1"
tier = "interruptible"
cores = 8.5
memory_gb = 32
`;

async function useToken(page: Page, token: string): Promise<void> {
  await page.click("Use a service account token");
  await page.type("Token", token);
  await page.click("Use this token");
}

type Stage = {
  readonly baseUrl: string;
  readonly operatorToken: string;
  readonly serviceAccountToken: string;
  readonly ownerEmail: string;
  readonly open: OpenPage;
  /** Asks the API; the answer is of success. */
  asOperator(method: string, path: string, body?: unknown): Promise<Json>;
  /** Opens one of the pages with the operator's token. */
  openAsOperator(path: string, look?: Parameters<OpenPage>[1]): Promise<Page>;
};

/** A platform with pools, plans, an announcement, and a project with a hostile name. */
async function openStage(t: TestContext): Promise<Stage> {
  const folder = temporaryFolder(t);
  const poolsFile = join(folder, "pools.toml");
  const plansFile = join(folder, "plans.toml");
  await Promise.all([writeFile(poolsFile, pools), writeFile(plansFile, plans)]);
  const platform = await startPlatformOnTestServer(t, {
    SLIPWAY_POOLS_FILE: poolsFile,
    SLIPWAY_PLANS_FILE: plansFile,
    SLIPWAY_SIMULATE_COMPUTE: "true",
    SLIPWAY_ANNOUNCEMENT: "Maintenance on Sunday <b>at noon</b>",
  });
  const { baseUrl, operatorToken } = platform.bootstrap;
  const open = await openPages(t, baseUrl);
  const stage: Stage = {
    ...platform.bootstrap,
    open,
    async asOperator(method, path, body) {
      const headers = {
        authorization: `Bearer ${operatorToken}`,
        "content-type": "application/json",
      };
      const sent = body === undefined ? {} : { body: JSON.stringify(body) };
      const answer = await fetch(baseUrl + path, { method, headers, ...sent });
      assert.ok(answer.ok, `${path}: ${answer.status}`);
      return await answer.json();
    },
    async openAsOperator(path, look) {
      const page = await open(`/dashboard/operator${path}`, look);
      await useToken(page, operatorToken);
      return page;
    },
  };
  await stage.asOperator("POST", "/v2/projects", { name: hostileName });
  return stage;
}

describe("the operator's pages", { skip: withoutBrowser }, () => {
  test("find projects in pages, and change their plans", async (t) => {
    const { asOperator, openAsOperator } = await openStage(t);
    for (let at = 0; at < 52; at++)
      await asOperator("POST", "/v2/projects", { name: `Team ${at}` });
    const page = await openAsOperator("");
    await page.shows("All projects");
    await page.click("Next page");
    await page.click("First page");
    await page.type("Search", "ONERROR");
    const rows = "document.querySelectorAll('tbody tr').length";
    await until("one project is found", async () => (await page.evaluate(rows)) === 1);
    assert.match(await page.evaluate("location.search"), /search=ONERROR/);
    await page.click("Plan");
    await page.shows("0 of 2");
    const offered =
      "[...document.querySelectorAll('select[name=plan] option')].map(({ value }) => value)";
    await until("all plans are offered", async () => (await page.evaluate(offered)).length > 1);
    const plansThere = (await asOperator("GET", "/v2/operator/plans")) as Json[];
    assert.deepEqual(
      await page.evaluate(offered),
      plansThere.map(({ name }) => name),
    );
    assert.ok((await page.evaluate(offered)).includes("hobby"));
    await takePicture(page, "operator-plan-light");
    assert.deepEqual(await axeFindings(page), []);
    await choose(page, "Another plan", "self-hosted");
    await page.click("Change the plan");
    await page.shows("0 of any number");
    const found = await asOperator("GET", "/v2/operator/projects?search=onerror");
    assert.equal(found.items[0].plan, "self-hosted");
  });

  test("make and end coupons, and show tokens and links once", async (t) => {
    const { baseUrl, ownerEmail, openAsOperator } = await openStage(t);
    const page = await openAsOperator("/coupons");
    await page.shows("No coupons yet.");
    await page.type("Code", "WELCOME");
    await page.type("Name", hostileName);
    await page.type("Amount in hundredths", "12.5");
    await page.click("Create coupon");
    await page.shows("amount_cents is 12.5, but must be a whole number");
    await page.type("Amount in hundredths", "1250");
    await page.click("Create coupon");
    await page.shows("WELCOME can be applied now.");
    await page.shows("12.50 USD");
    await page.click("End");
    await page.click("End now");
    await page.shows("ended");

    await page.click("Tokens");
    await page.shows("bootstrap");
    await page.type("Name", "second");
    await page.click("Issue token");
    await page.shows("It is shown only now");
    await takePicture(page, "operator-token-light");
    const token: string = await page.evaluate("document.querySelector('pre').textContent");
    await page.reload();
    await page.shows("second");
    assert.equal((await page.text()).includes(token), false);
    const asked = await fetch(`${baseUrl}/v2/operator/tokens`, {
      headers: { authorization: `Bearer ${token}` },
    });
    assert.equal(asked.status, 200);

    await page.click("People");
    await page.type("Email of the person", "nobody@example.org");
    await page.click("Make a link");
    await until("the refusal is shown", () =>
      page.evaluate("document.querySelector('form [role=alert]').textContent !== ''"),
    );
    await page.type("Email of the person", ownerEmail);
    await page.click("Make a link");
    await page.shows("/reset-password/");
    await takePicture(page, "operator-link-light");
  });

  test("are whole in light, dark and on a phone, and are not shown to others", async (t) => {
    const { baseUrl, serviceAccountToken, open, asOperator, openAsOperator } = await openStage(t);
    await asOperator("POST", "/v2/operator/coupons", {
      code: "WELCOME",
      name: hostileName,
      coupon_type: "percentage",
      percentage_rate: 20,
      plans: ["hobby"],
      frequency: "recurring",
      frequency_duration: 3,
      expiration_at: "2099-01-31T12:00:00Z",
      max_uses: 5,
    });
    const page = await openAsOperator("");
    const texts = {
      "": "onerror",
      "/coupons": "3 months",
      "/tokens": "bootstrap",
      "/people": "A new password",
      "/platform": "ADA_L4 0 of 2",
    };
    const sights = Object.entries(texts).map(([path, text]) => {
      return [
        `operator${path.replace("/", "-")}`,
        { url: `${baseUrl}/dashboard/operator${path}`, text },
      ] as const;
    });
    const notice = {
      url: `${baseUrl}/dashboard/operator/platform`,
      text: "Maintenance on Sunday <b>at noon</b>",
    };
    await lookAtAll(page, { ...Object.fromEntries(sights), "operator-notice": notice });
    const stranger = await open("/dashboard/operator/coupons");
    await useToken(stranger, serviceAccountToken);
    await stranger.shows("These pages need an operator's token");
    assert.equal((await stranger.text()).includes("WELCOME"), false);
  });
});
