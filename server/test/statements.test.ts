// Statements of months over the wire: what they hold in each form, when they close, that a closed
// one never changes, and that what comes to light later stands in a later one, once.
import assert from "node:assert/strict";
import { describe, test, type TestContext } from "node:test";
import { sql } from "kysely";
import { statement, statementList } from "@slipway/contract/usage-routes.ts";
import type { ApiAnswer, ApiUnderTest, Json } from "./support/management-api.ts";
import { startManagementApi } from "./support/management-api.ts";
import { plainMicrosPerSecond, SetClock, UsageStage } from "./usage-stage.ts";

const hour = 3_600_000;
const day = 24 * hour;
const october = Date.UTC(2026, 9, 20);
const plain = (ms: number): number => Math.round((ms / 1000) * plainMicrosPerSecond);

type Stage = {
  readonly api: ApiUnderTest;
  readonly usage: UsageStage;
  get(path: string): Promise<ApiAnswer>;
};

async function open(t: TestContext): Promise<Stage> {
  const clock = new SetClock(october);
  const api = await startManagementApi(t, { clock });
  const usage = new UsageStage(api.db, clock);
  return {
    api,
    usage,
    get: (path) => api.call("GET", `/v2/projects/${api.projectId}/billing/statements${path}`),
  };
}

const read = async ({ get }: Stage, month: string): Promise<Json> =>
  statement.parse((await get(`/${month}`)).body);

describe("a statement", () => {
  test("holds what was used by app and compute type, what coupons took off, and what is owed", async (t) => {
    const stage = await open(t);
    const { api, usage } = stage;
    await usage.apply(api.projectId, { amount_cents: 3, name: "Three" });
    const place = await usage.addApp(api.projectId, "one");
    await usage.stop(await usage.addReplica(api.projectId, place, october), october + 2 * hour);
    const gpu = {
      compute: "TURING_T4",
      gpuCount: 2,
      computeTier: "protected",
      provider: "aws",
    } as const;
    await usage.stop(await usage.addReplica(api.projectId, place, october, gpu), october + 10_500);
    await usage.addBuild(api.projectId, place, {
      number: 2,
      startedMs: october,
      environment: [october, october + 1_000],
    });
    await usage.meter().turn();
    const found = await read(stage, "2026-10");
    const gpuMicros = Math.round(10.5 * 2 * (2 * 164 + plainMicrosPerSecond));
    assert.deepEqual(
      found.lines.map((line: Json) => [
        line.kind,
        line.compute,
        line.compute_tier,
        line.pool,
        line.seconds,
        line.gpu_seconds,
        line.build_count,
        line.cost_micros,
      ]),
      [
        ["run", "CPU", "interruptible", "", 7_200, 0, 0, plain(2 * hour)],
        ["run", "TURING_T4", "protected", "aws", 10.5, 21, 0, gpuMicros],
        ["build", "CPU", "interruptible", "", 1, 0, 1, 23],
      ],
    );
    assert.deepEqual(
      found.discounts.map((one: Json) => [one.coupon_name, one.amount_micros]),
      [["Three", 30_000]],
    );
    const used = plain(2 * hour) + gpuMicros + 23;
    assert.deepEqual(
      [found.usage_micros, found.discounts_micros, found.corrections_micros, found.total_micros],
      [used, 30_000, 0, used - 30_000],
    );
    assert.deepEqual(
      [found.status, found.closed_at, found.currency, found.project_id],
      ["open", null, "USD", api.projectId],
    );
    const list = statementList.parse((await stage.get("")).body);
    assert.deepEqual(
      list.items.map((item) => [item.month, item.total_micros]),
      [["2026-10", used - 30_000]],
    );
  });

  test("comes as CSV whose amounts add up to the total, and as a page that runs no script and shows names as texts", async (t) => {
    const stage = await open(t);
    const { api, usage, get } = stage;
    await usage.apply(api.projectId, { amount_cents: 1, name: '=1+1,"<b>' });
    const place = await usage.addApp(api.projectId, "one");
    await usage.stop(await usage.addReplica(api.projectId, place, october), october + hour);
    await usage.meter().turn();
    const csv = await get("/2026-10?format=csv");
    assert.equal(csv.headers.get("content-type"), "text/csv; charset=utf-8; header=present");
    assert.match(
      String(csv.headers.get("content-disposition")),
      /^attachment; filename="statement-p-[0-9a-f]{8}-2026-10\.csv"$/,
    );
    const lines = String(csv.body).split("\r\n");
    assert.equal(lines.at(-1), "");
    const amounts = lines.slice(1, -1).map((line) => Number(line.split(",").at(-2)));
    assert.deepEqual(amounts, [0.039564, -0.01, 0.029564]);
    assert.match(String(lines[2]), /^2026-10,discount,.*,"'=1\+1,""<b>",,-0\.01,USD$/);
    const page = await get("/2026-10?format=html");
    assert.equal(page.headers.get("content-type"), "text/html; charset=utf-8");
    assert.match(
      String(page.headers.get("content-security-policy")),
      /^default-src 'none'; style-src 'sha256-[\w+/=]+';/,
    );
    assert.ok(String(page.body).includes("=1+1,&quot;&lt;b&gt;"));
    assert.ok(!/<script|<b>| on\w+=/i.test(String(page.body)));
    assert.ok(String(page.body).includes(">0.029564<"));
    const { createHash } = await import("node:crypto");
    const style = /<style>([^]*)<\/style>/.exec(String(page.body))?.[1] ?? "";
    const hash = createHash("sha256").update(style).digest("base64");
    assert.ok(
      String(page.headers.get("content-security-policy")).includes(hash),
      "the policy lets the page's style through",
    );
  });

  test("of a month to come is not there, of one without usage is empty, and what is no month is refused", async (t) => {
    const { get } = await open(t);
    assert.equal((await get("/2026-11")).status, 404);
    const empty = statement.parse((await get("/2026-09")).body);
    assert.deepEqual([empty.lines, empty.total_micros, empty.status], [[], 0, "open"]);
    for (const month of ["2026-13", "2026", "october", "2026-1"]) {
      const { status, body } = await get(`/${month}`);
      assert.equal(status, 400, month);
      assert.equal(body.message, `month is "${month}", but must be a month of the form 2026-01.`);
    }
    assert.equal((await get("/2026-10?format=pdf")).status, 400);
  });
});

describe("a closed statement", () => {
  /** October with one hour of one replica, and one that is known to have run for 3 hours. */
  async function closed(t: TestContext) {
    const stage = await open(t);
    const { api, usage } = stage;
    await usage.apply(api.projectId, {
      coupon_type: "percentage",
      percentage_rate: 50,
      frequency: "forever",
    });
    const place = await usage.addApp(api.projectId, "one");
    await usage.stop(await usage.addReplica(api.projectId, place, october), october + hour);
    const late = await usage.addReplica(api.projectId, place, october);
    await usage.seen(late, october + 3 * hour);
    const meter = usage.meter();
    await meter.turn();
    usage.clock.atMs = Date.UTC(2026, 10, 2) - 1;
    await meter.turn();
    assert.equal((await read(stage, "2026-10")).status, "open", "until a day after its month");
    usage.clock.atMs = Date.UTC(2026, 10, 2);
    await meter.turn();
    return { ...stage, place, late, meter };
  }

  test("never changes; what comes to light later is a correction in the next one, once", async (t) => {
    const stage = await closed(t);
    const { usage, late, meter, place, api } = stage;
    const before = await read(stage, "2026-10");
    assert.equal(before.status, "closed");
    const full = plain(hour) + plain(3 * hour);
    assert.deepEqual([before.usage_micros, before.discounts_micros], [full, Math.round(full / 2)]);

    await usage.stop(late, october + 2 * hour);
    await meter.turn();
    assert.deepEqual(await read(stage, "2026-10"), before);
    const right = plain(hour) + plain(2 * hour);
    const correction = {
      month: "2026-10",
      usage_micros: right - full,
      discounts_micros: Math.round(right / 2) - Math.round(full / 2),
    };
    const november = await read(stage, "2026-11");
    assert.deepEqual(november.corrections, [correction]);
    assert.equal(november.total_micros, correction.usage_micros - correction.discounts_micros);

    usage.clock.atMs = Date.UTC(2026, 11, 2);
    await meter.turn();
    const closedNovember = await read(stage, "2026-11");
    assert.deepEqual([closedNovember.status, closedNovember.corrections], ["closed", [correction]]);
    assert.deepEqual((await read(stage, "2026-12")).corrections, [], "it is not said twice");

    // More of October comes to light: only what is new is said.
    await usage.stop(
      await usage.addReplica(api.projectId, place, october + 5 * hour),
      october + 6 * hour,
    );
    await meter.turn();
    const december = await read(stage, "2026-12");
    assert.equal(december.corrections[0].usage_micros, plain(hour));
    assert.deepEqual(await read(stage, "2026-11"), closedNovember);
    const list = statementList.parse((await stage.get("")).body);
    const owed = list.items.reduce((sum, item) => sum + item.total_micros, 0);
    assert.equal(
      owed,
      Number((await usage.sums(api.projectId)).receivable),
      "all statements together are what the ledger says is owed",
    );
    const kinds = await usage.db
      .selectFrom("ledger_transactions")
      .select(["kind", "period"])
      .where("kind", "=", "usage.correction")
      .execute();
    assert.equal(kinds.length, 2);
  });

  test("is corrected in one statement only, while two are open, and also where an older month comes to light", async (t) => {
    const stage = await closed(t);
    const { usage, late, meter, place, api } = stage;
    const november = Date.UTC(2026, 10, 20);
    await usage.stop(await usage.addReplica(api.projectId, place, november), november + hour);
    usage.clock.atMs = Date.UTC(2026, 11, 1, 1);
    await usage.stop(late, october + 2 * hour);
    await meter.turn();
    const owed = async (): Promise<void> => {
      const { items } = statementList.parse((await stage.get("")).body);
      const total = items.reduce((sum, item) => sum + item.total_micros, 0);
      assert.equal(total, Number((await usage.sums(api.projectId)).receivable));
    };
    const corrected = async (month: string): Promise<string[]> =>
      (await read(stage, month)).corrections.map((one: Json) => one.month);
    assert.deepEqual([await corrected("2026-11"), await corrected("2026-12")], [["2026-10"], []]);
    await owed();
    usage.clock.atMs = Date.UTC(2026, 11, 3);
    await meter.turn();
    assert.deepEqual([await corrected("2026-11"), await corrected("2026-12")], [["2026-10"], []]);
    // A replica of September that nobody knew of has a statement of its own, made last.
    const september = Date.UTC(2026, 8, 20);
    await usage.stop(await usage.addReplica(api.projectId, place, september), september + hour);
    await meter.turn();
    const found = await read(stage, "2026-09");
    assert.deepEqual(
      [found.status, found.usage_micros, found.corrections],
      ["closed", plain(hour), []],
    );
    assert.deepEqual(await corrected("2026-12"), []);
    await owed();
  });

  test("is kept by the database, whoever would change it", async (t) => {
    const { usage } = await closed(t);
    for (const change of [
      sql`update statements set period = '2020-01'`,
      sql`delete from statements`,
    ]) {
      await assert.rejects(change.execute(usage.db), /never changed or removed|permission denied/);
    }
  });

  test("is made once, however many platforms close it, and days later too", async (t) => {
    const stage = await open(t);
    const { api, usage } = stage;
    const place = await usage.addApp(api.projectId, "one");
    await usage.stop(await usage.addReplica(api.projectId, place, october), october + hour);
    usage.clock.atMs = october + 90 * day;
    await Promise.all(Array.from({ length: 3 }, () => usage.meter().turn()));
    await usage.meter().turn();
    const rows = await usage.db.selectFrom("statements").select("period").execute();
    assert.deepEqual(rows, [{ period: "2026-10" }]);
  });
});
