// Usage over the wire: what a month costs as clients of the published interface read it, sums by
// app, day and compute type, the ledger and applied coupons; and what of it is refused.
import assert from "node:assert/strict";
import { describe, test, type TestContext } from "node:test";
import { sql } from "kysely";
import {
  appCost,
  appliedCoupons,
  ledgerPage,
  projectCost,
  statementList,
  usageAnswer,
} from "@slipway/contract/usage-routes.ts";
import { must } from "#lib/assert.ts";
import type { ApiAnswer, ApiUnderTest, Json } from "./support/management-api.ts";
import { startManagementApi } from "./support/management-api.ts";
import { byPlatform } from "./support/accounts.ts";
import { until } from "./support/until.ts";
import { spend } from "./budgets-stage.ts";
import { plainMicrosPerSecond, SetClock, UsageStage } from "./usage-stage.ts";

const noon = Date.UTC(2026, 10, 14, 12);
const hour = 3_600_000;
const plain = (ms: number): number => Math.round((ms / 1000) * plainMicrosPerSecond);

type Stage = {
  readonly api: ApiUnderTest;
  readonly usage: UsageStage;
  get(path: string): Promise<ApiAnswer>;
};

async function open(t: TestContext): Promise<Stage> {
  const clock = new SetClock(noon);
  const api = await startManagementApi(t, { clock });
  const usage = new UsageStage(api.db, clock);
  return { api, usage, get: (path) => api.call("GET", `/v2/projects/${api.projectId}${path}`) };
}

/** Two apps, a GPU, a build, two months. */
async function fill({ api: { projectId }, usage }: Stage): Promise<{ one: string; two: string }> {
  const one = await usage.addApp(projectId, "one");
  const two = await usage.addApp(projectId, "two");
  const october = Date.UTC(2026, 9, 20);
  await usage.stop(await usage.addReplica(projectId, one, october), october + 2 * hour);
  await usage.stop(await usage.addReplica(projectId, one, noon - 3 * hour), noon - hour);
  const gpu = { compute: "TURING_T4", gpuCount: 2, provider: "aws", region: "eu-1" };
  await usage.stop(
    await usage.addReplica(projectId, two, noon - 30 * hour, gpu),
    noon - 30 * hour + 90_000,
  );
  await usage.addBuild(projectId, two, {
    number: 2,
    startedMs: noon - 40 * hour,
    environment: [noon - 40 * hour, noon - 40 * hour + 10_000],
  });
  await usage.addBuild(projectId, two, { number: 3, startedMs: noon - 39 * hour });
  await usage.meter().turn();
  return { one: one.appId, two: two.appId };
}

const gpuMicros = Math.round(90 * (2 * 164 + plainMicrosPerSecond));
const buildMicros = Math.round(10 * 23.09);

describe("the cost of a month", () => {
  test("is that of replicas and builds before coupons, with what a client needs to tell what credit is left", async (t) => {
    const stage = await open(t);
    const { api, usage, get } = stage;
    usage.clock.atMs = Date.UTC(2026, 9, 1);
    await usage.apply(api.projectId, { amount_cents: 50, name: "Fifty" });
    usage.clock.atMs = noon;
    await fill(stage);
    const { status, body } = await get("/cost");
    assert.equal(status, 200);
    const { summary, coupons } = projectCost.parse(body);
    const november = plain(2 * hour) + gpuMicros + buildMicros;
    assert.deepEqual(summary, {
      month: "2026-11",
      currency: "USD",
      combined_cost_before_discounts_cents: Math.round(november / 10_000),
      combined_cost_before_discounts_micros: november,
      run_cost_micros: plain(2 * hour) + gpuMicros,
      build_cost_micros: buildMicros,
      storage_cost_micros: 0,
      discounts_cents: Math.round(november / 10_000),
      discounts_micros: november,
      combined_cost_after_discounts_cents: 0,
      combined_cost_after_discounts_micros: 0,
      total_replica_seconds: 7_290,
      total_gpu_seconds: 180,
      total_cpu_core_seconds: 7_290,
      total_memory_gb_seconds: 14_580,
      total_build_seconds: 10,
      total_build_count: 2,
      total_storage_gb_seconds: 0,
    });
    const october = plain(2 * hour);
    const left = Math.floor((500_000 - october) / 10_000);
    assert.equal(coupons.length, 1);
    const coupon = must(coupons[0], "a coupon");
    assert.deepEqual(
      [coupon.amount_cents, coupon.amount_cents_remaining, coupon.drawn_micros],
      [50, left, october + november],
    );
    // As a client does: what was left when the month began, less what the month costs.
    const clients =
      coupons.reduce((sum, one) => sum + one.amount_cents_remaining, 0) -
      summary.combined_cost_before_discounts_cents;
    assert.ok(
      Math.abs(clients - coupon.amount_cents_balance) <= 1,
      `${clients} and ${coupon.amount_cents_balance}`,
    );
    const earlier = projectCost.parse((await get("/cost?month=2026-10")).body);
    assert.equal(earlier.summary.combined_cost_before_discounts_micros, october);
    assert.equal(earlier.coupons[0]?.amount_cents_remaining, 50);
    const before = projectCost.parse((await get("/cost?month=2026-09")).body);
    assert.deepEqual(
      [before.summary.combined_cost_before_discounts_micros, before.coupons],
      [0, []],
    );
  });

  test("adds up in cents too: what is used, what is taken off, what is left", async (t) => {
    const { api, usage, get } = await open(t);
    const { projectId } = api;
    const place = await usage.addApp(projectId, "one");
    usage.clock.atMs = noon - hour;
    await usage.apply(projectId, { coupon_type: "percentage", percentage_rate: 50 });
    usage.clock.atMs = noon;
    // 1.4 cents, half of which is taken off: all three would be a cent.
    const id = await usage.addReplica(projectId, place, noon - hour / 2);
    await usage.stop(id, noon - hour / 2 + Math.round((14_000 / plainMicrosPerSecond) * 1000));
    await usage.meter().turn();
    const { summary } = projectCost.parse((await get("/cost")).body);
    assert.deepEqual(
      [summary.combined_cost_before_discounts_micros, summary.discounts_micros],
      [14_000, 7_000],
    );
    const { discounts_cents: off, combined_cost_after_discounts_cents: left } = summary;
    assert.equal(summary.combined_cost_before_discounts_cents - off, left);
    const listed = statementList.parse((await get("/billing/statements")).body);
    const sums = must(listed.items[0], "the month's statement");
    assert.equal(
      sums.usage_cents - sums.discounts_cents + sums.corrections_cents,
      sums.total_cents,
    );
  });

  test("has the amount of a coupon that was applied twice only once: the second waits for its turn", async (t) => {
    const stage = await open(t);
    const { api, usage, get } = stage;
    usage.clock.atMs = noon - 48 * hour;
    await usage.apply(api.projectId, { amount_cents: 500, frequency: "forever", reusable: true });
    const { code } = await api.db.selectFrom("coupons").select("code").executeTakeFirstOrThrow();
    await usage.coupons.apply(api.projectId, code, byPlatform);
    usage.clock.atMs = noon;
    const creditOf = async (): Promise<number[][]> =>
      projectCost
        .parse((await get("/cost")).body)
        .coupons.map((one) => [one.amount_cents_remaining, one.amount_cents_balance]);
    assert.deepEqual(await creditOf(), [
      [500, 500],
      [0, 0],
    ]);
    await fill(stage);
    const { summary } = projectCost.parse((await get("/cost")).body);
    const drawn = summary.discounts_micros;
    assert.equal(drawn, summary.combined_cost_before_discounts_micros);
    assert.deepEqual(await creditOf(), [
      [500, Math.floor((5_000_000 - drawn) / 10_000)],
      [0, 0],
    ]);
  });

  test("of an app is its own, by id or name, and another project's app is not there", async (t) => {
    const stage = await open(t);
    const { one, two } = await fill(stage);
    const of = async (app: string): Promise<number> =>
      appCost.parse((await stage.get(`/apps/${app}/cost`)).body).summary
        .combined_cost_before_discounts_micros;
    assert.equal(await of(one), plain(2 * hour));
    assert.equal(await of("one"), plain(2 * hour));
    assert.equal(await of(two), gpuMicros + buildMicros);
    assert.equal((await stage.get("/apps/three/cost")).status, 404);
    const other = await stage.api.addProject("other");
    await stage.usage.addApp(other, "four");
    assert.equal((await stage.get("/apps/four/cost")).status, 404);
  });

  test("shows coupons as they are: recurring, in percent, expired", async (t) => {
    const stage = await open(t);
    const { api, usage, get } = stage;
    usage.clock.atMs = Date.UTC(2026, 9, 1);
    await usage.apply(api.projectId, {
      amount_cents: 3,
      frequency: "recurring",
      frequency_duration: 2,
    });
    await usage.apply(api.projectId, {
      coupon_type: "percentage",
      percentage_rate: 12.5,
      frequency: "forever",
    });
    const expiration = new Date(Date.UTC(2026, 9, 5));
    await usage.apply(api.projectId, { amount_cents: 400, expiration_at: expiration });
    usage.clock.atMs = noon;
    await fill(stage);
    const { items } = appliedCoupons.parse((await get("/billing/coupons")).body);
    const shown = items.map((item) => [
      item.frequency,
      item.amount_cents,
      item.amount_cents_remaining,
      item.amount_cents_balance,
      item.status,
      item.percentage_rate,
      item.expiration_at,
    ]);
    assert.deepEqual(shown, [
      ["recurring", 3, 3, 0, "active", undefined, undefined],
      ["forever", 0, 0, 0, "active", 12.5, undefined],
      ["once", 400, 0, 0, "ended", undefined, expiration.toISOString()],
    ]);
    const cost = projectCost.parse((await get("/cost")).body);
    assert.deepEqual(
      cost.coupons,
      items.slice(0, 2),
      "those that could take off something in November",
    );
  });
});

describe("usage", () => {
  test("is summed up by app, by day and by compute type, and each of them has the same total", async (t) => {
    const stage = await open(t);
    const { one, two } = await fill(stage);
    const of = async (query: string): Promise<ReturnType<typeof usageAnswer.parse>> => {
      const { status, body } = await stage.get(`/usage?${query}`);
      assert.equal(status, 200, JSON.stringify(body));
      return usageAnswer.parse(body);
    };
    const all = "from=2026-10-01&to=2026-12-01";
    const byApp = await of(all);
    assert.deepEqual(
      byApp.items.map(({ app_id, cost_micros }) => [app_id, cost_micros]),
      [
        [one, 2 * plain(2 * hour)],
        [two, gpuMicros + buildMicros],
      ],
    );
    const byDay = await of(`${all}&group_by=day`);
    assert.deepEqual(
      byDay.items.map(({ day, cost_micros, build_count }) => [day, cost_micros, build_count]),
      [
        ["2026-10-20", plain(2 * hour), 0],
        ["2026-11-12", buildMicros, 2],
        ["2026-11-13", gpuMicros, 0],
        ["2026-11-14", plain(2 * hour), 0],
      ],
    );
    const byCompute = await of(`${all}&group_by=compute`);
    assert.deepEqual(
      byCompute.items.map(({ compute, compute_tier, pool, gpu_seconds }) => [
        compute,
        compute_tier,
        pool,
        gpu_seconds,
      ]),
      [
        ["CPU", "interruptible", "", 0],
        ["TURING_T4", "interruptible", "aws/eu-1", 180],
      ],
    );
    const total = byApp.total.cost_micros;
    assert.equal(total, 2 * plain(2 * hour) + gpuMicros + buildMicros);
    for (const { items, total: sum } of [byApp, byDay, byCompute]) {
      assert.equal(
        items.reduce((added, item) => added + item.cost_micros, 0),
        total,
      );
      assert.equal(sum.cost_micros, total);
    }
    for (const from of ["2026-10-01", "2026-10-19", "2026-10-20", "2026-10-21", "2026-11-12"]) {
      for (const to of [
        "2026-10-31",
        "2026-11-01",
        "2026-11-13",
        "2026-11-14",
        "2026-12-02",
        "2027-01-01",
      ]) {
        if (from > to) continue;
        const { items, total: sum } = await of(`from=${from}&to=${to}`);
        const added = items.reduce((all, item) => all + item.cost_micros, 0);
        assert.equal(
          added,
          sum.cost_micros,
          `by app, of whole months and of parts: ${from} to ${to}`,
        );
      }
    }
    const thisMonth = await of("");
    assert.deepEqual([thisMonth.from, thisMonth.to], ["2026-11-01", "2026-11-15"]);
    assert.equal(thisMonth.total.cost_micros, total - plain(2 * hour));
    assert.deepEqual((await of("from=2026-11-13&to=2026-11-13")).items, []);
  });

  test("and its total are of one moment, though it is counted meanwhile", async (t) => {
    const { api, usage, get } = await open(t);
    const { db, projectId } = api;
    await usage.addApp(projectId, "example");
    await spend(db, api, { cents: 100, month: "2026-11" });
    const held = Promise.withResolvers<void>();
    t.after(() => held.resolve());
    const locked = Promise.withResolvers<void>();
    const metering = db.transaction().execute(async (tx) => {
      await sql`lock table usage_project_days in access exclusive mode`.execute(tx);
      locked.resolve();
      await held.promise;
      for (const table of ["usage_days", "usage_months", "usage_project_days"]) {
        await sql`update ${sql.table(table)} set amount_micros = amount_micros * 2`.execute(tx);
      }
    });
    await locked.promise;
    const answer = get("/usage?group_by=app");
    await until("the total is waited for", async () => {
      const { rows } = await sql`
        select pid from pg_locks where not granted
           and database = (select oid from pg_database where datname = current_database())`.execute(
        db,
      );
      return rows.length > 0;
    });
    held.resolve();
    await metering;
    const { items, total } = usageAnswer.parse((await answer).body);
    assert.equal(items[0]?.cost_micros, total.cost_micros);
  });
});

describe("the ledger", () => {
  test("is listed newest first, page by page, each transaction with its coupon or its month, and balances", async (t) => {
    const stage = await open(t);
    stage.usage.clock.atMs = Date.UTC(2026, 9, 21);
    await stage.usage.apply(stage.api.projectId, { amount_cents: 1 });
    stage.usage.clock.atMs = noon;
    await fill(stage);
    const items: Json[] = [];
    let token = "";
    do {
      const page = ledgerPage.parse((await stage.get(`/billing/ledger?pageSize=2${token}`)).body);
      assert.ok(page.items.length <= 2);
      items.push(...page.items);
      token = page.nextToken === undefined ? "" : `&nextToken=${page.nextToken}`;
    } while (token !== "");
    assert.deepEqual(
      items
        .map(({ kind, month }) => [kind, month])
        .toReversed()
        .toSorted(),
      [
        ["coupon.draw", "2026-11"],
        ["coupon.grant", null],
        ["usage.charge", "2026-10"],
        ["usage.charge", "2026-11"],
      ],
    );
    for (const { entries } of items) {
      assert.equal(
        entries.reduce((sum: number, entry: Json) => sum + entry.amount_micros, 0),
        0,
      );
    }
    const draw = items.find(({ kind }) => kind === "coupon.draw");
    assert.deepEqual(
      draw.entries.map(({ account }: Json) => account),
      ["coupon_credit", "receivable"],
    );
    assert.match(draw.entries[0].coupon_code, /^C[0-9a-f-]+$/);
    assert.equal(new Set(items.map(({ id }) => id)).size, items.length);
  });
});

describe("refused with a sentence that names the parameter", () => {
  const cases: readonly (readonly [string, RegExp])[] = [
    ["/cost?month=2026-13", /^month is "2026-13", but must be a month of the form 2026-01\.$/],
    ["/cost?month=November", /^month is "November"/],
    ["/cost?from=2026-11-01", /"from" is not a parameter/],
    ["/usage?from=2026-02-30", /^from is "2026-02-30", but must be a valid day of the form/],
    [
      "/usage?from=2026-11-01T00:00:00Z",
      /^from is "2026-11-01T00:00:00Z", but must be a day of the form/,
    ],
    ["/usage?from=2026-11-02&to=2026-11-01", /^from is "2026-11-02", but must not be after to/],
    [
      "/usage?from=2024-01-01&to=2026-01-01",
      /^to is "2026-01-01", but must be at most 400 days after from/,
    ],
    ["/usage?group_by=hour", /^group_by is "hour", but must be one of app, day, compute\.$/],
    ["/billing/ledger?pageSize=201", /^pageSize is 201/],
    ["/billing/ledger?nextToken=x", /^nextToken is "x"/],
  ];
  test("what is not a month, a day, a window or a page", async (t) => {
    const { get } = await open(t);
    for (const [path, message] of cases) {
      const { status, body } = await get(path);
      assert.equal(status, 400, path);
      assert.match(body.message, message);
      assert.deepEqual(Object.keys(body), ["message"]);
    }
  });

  test("and whoever has no right to read billing", async (t) => {
    const { api } = await open(t);
    const paths = ["/cost", "/usage", "/billing/ledger", "/billing/coupons", "/billing/statements"];
    const member = await api.issue({ kind: "service_account", role: "member" });
    const billing = await api.issue({ kind: "service_account", role: "billing" });
    const other = await api.issue({
      kind: "service_account",
      projectId: await api.addProject("other"),
    });
    for (const path of paths) {
      const ask = async (token: string | null): Promise<number> =>
        (await api.call("GET", `/v2/projects/${api.projectId}${path}`, { token })).status;
      assert.deepEqual(
        [await ask(member), await ask(billing), await ask(other), await ask(null)],
        [403, 200, 404, 401],
        path,
      );
    }
  });
});
