// Plans over the wire: what the operator gives, what a project sees, and how many apps it may have.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test, type TestContext } from "node:test";
import { faultAnswer } from "@slipway/contract/answers.ts";
import { operatorCoupon } from "@slipway/contract/billing-answers.ts";
import {
  operatorProject,
  operatorProjectPage,
  projectPlan,
} from "@slipway/contract/plan-routes.ts";
import { setPlanCredits } from "#billing/plans/plan-credit.ts";
import { readPlans } from "#billing/plans/plan-file.ts";
import "#test/support/leftovers.ts";
import { temporaryFolder } from "./support/folder.ts";
import { startManagementApi, type ApiUnderTest } from "./support/management-api.ts";

const plans = `
[plans.hobby]
apps = 2
replicas = 5
gpus = 0
audit_retention_days = 7
log_retention_days = 1
call_retention_days = 2
call_records_per_minute = 5
monthly_credit_cents = 500
coupons = "named"

[plans.big]
apps = 100
`;

type Stage = {
  readonly api: ApiUnderTest;
  readonly operator: string;
  give(plan: string): Promise<void>;
};

async function openStage(t: TestContext): Promise<Stage> {
  const plansFile = join(temporaryFolder(t, "plans"), "plans.toml");
  writeFileSync(plansFile, plans);
  const api = await startManagementApi(t, { settings: { plansFile } });
  const operator = await api.issue({ kind: "operator" });
  return {
    api,
    operator,
    async give(plan) {
      const path = `/v2/operator/projects/${api.projectId}`;
      const answer = await api.call("PATCH", path, { token: operator, body: { plan } });
      assert.equal(answer.status, 200, JSON.stringify(answer.body));
      assert.deepEqual(
        [operatorProject.parse(answer.body).plan, answer.body.is_default_plan],
        [plan, false],
      );
    },
  };
}

const createApp = ({ api }: Stage, name: string) =>
  api.call("POST", `/v2/projects/${api.projectId}/apps/git`, {
    body: { gitRepo: "someone/apps", name },
  });

describe("the plan of a project", () => {
  test("is the default one until the operator gives another, and shows limits and what is used of them", async (t) => {
    const stage = await openStage(t);
    const { api } = stage;
    const shown = async () =>
      projectPlan.parse((await api.call("GET", `/v2/projects/${api.projectId}/plan`)).body);
    assert.deepEqual(await shown(), {
      plan: "self-hosted",
      limits: { apps: null, replicas: null, gpus: null },
      used: { apps: 0, replicas: 0, gpus: 0 },
      audit_retention_days: 365,
      log_retention_days: 30,
      call_retention_days: 30,
      call_records_per_minute: 60,
      monthly_credit_cents: 0,
      coupons: "all",
    });
    await stage.give("hobby");
    assert.equal((await createApp(stage, "first")).status, 201);
    assert.deepEqual(await shown(), {
      plan: "hobby",
      limits: { apps: 2, replicas: 5, gpus: 0 },
      used: { apps: 1, replicas: 0, gpus: 0 },
      audit_retention_days: 7,
      log_retention_days: 1,
      call_retention_days: 2,
      call_records_per_minute: 5,
      monthly_credit_cents: 500,
      coupons: "named",
    });
  });

  test("is changed by operators only, to a plan that there is, which the audit log tells", async (t) => {
    const stage = await openStage(t);
    const { api, operator } = stage;
    const path = `/v2/operator/projects/${api.projectId}`;
    const owner = await api.call("PATCH", path, { body: { plan: "big" } });
    assert.equal(owner.status, 403, faultAnswer.parse(owner.body).message);
    const unknown = await api.call("PATCH", path, { token: operator, body: { plan: "biggest" } });
    assert.deepEqual(
      [unknown.status, unknown.body.message],
      [400, 'plan is "biggest", but must be one of self-hosted, hobby, big.'],
    );
    const nowhere = "/v2/operator/projects/p-00000000";
    assert.equal(
      (await api.call("PATCH", nowhere, { token: operator, body: { plan: "big" } })).status,
      404,
    );
    await stage.give("big");
    const entries = await api.db
      .selectFrom("audit_log")
      .select(["action", "outcome", "actor_type", "resource_id", "changes"])
      .where("action", "=", "plan.change")
      .where("outcome", "=", "success")
      .execute();
    const changes = { plan: { old: "self-hosted", new: "big" } };
    const change = {
      action: "plan.change",
      outcome: "success",
      actor_type: "operator",
      resource_id: api.projectId,
    };
    assert.deepEqual(entries, [{ ...change, changes }]);
  });

  test("stands in the operator's list of all projects, in pages", async (t) => {
    const stage = await openStage(t);
    const { api, operator } = stage;
    const ids = [api.projectId, await api.addProject("second"), await api.addProject("third")];
    await stage.give("hobby");
    const found: Record<string, string> = {};
    let path = "/v2/operator/projects?pageSize=2";
    for (let token: string | undefined = ""; token !== undefined;) {
      const query = token === "" ? "" : `&nextToken=${token}`;
      const page = operatorProjectPage.parse(
        (await api.call("GET", path + query, { token: operator })).body,
      );
      for (const { id, plan } of page.items) found[id] = plan;
      token = page.nextToken;
    }
    const expected = ids.map((id) => [id, id === api.projectId ? "hobby" : "self-hosted"] as const);
    assert.deepEqual(found, Object.fromEntries(expected));
    assert.equal((await api.call("GET", path)).status, 403);
    const foundBy = async (text: string): Promise<string[]> => {
      const search = `/v2/operator/projects?search=${encodeURIComponent(text)}`;
      const { items } = operatorProjectPage.parse(
        (await api.call("GET", search, { token: operator })).body,
      );
      return items.map(({ id }) => id).toSorted();
    };
    assert.deepEqual(await foundBy("SECO"), [ids[1]]);
    assert.deepEqual(await foundBy(ids[2] ?? ""), [ids[2]]);
    assert.deepEqual(await foundBy("%"), []);
    await api.call("DELETE", `/v2/projects/${ids[1]}`, { token: operator });
    assert.deepEqual(await foundBy("seco"), [], "a deleted project is not listed");
    path = "/v2/operator/projects?pageSize=0";
    assert.equal((await api.call("GET", path, { token: operator })).status, 400);
  });
});

describe("the number of apps", () => {
  test("is kept: one more is refused with the plan, the number and what to do, and nothing of it is left", async (t) => {
    const stage = await openStage(t);
    await stage.give("hobby");
    for (const name of ["first", "second"])
      assert.equal((await createApp(stage, name)).status, 201);
    const refused = await createApp(stage, "third");
    assert.equal(refused.status, 403);
    assert.match(
      refused.body.message,
      /^The plan "hobby" allows the project 2 apps, and it already has that many: .*operator/,
    );
    const again = await createApp(stage, "first");
    assert.equal(again.status, 409, "a name that is taken is told as such");
    const { db } = stage.api;
    assert.equal((await db.selectFrom("apps").selectAll().execute()).length, 2);
    assert.equal((await db.selectFrom("builds").selectAll().execute()).length, 2);
    await stage.give("big");
    assert.equal((await createApp(stage, "third")).status, 201);
  });

  test("is not passed by many that come at once", async (t) => {
    const stage = await openStage(t);
    await stage.give("hobby");
    const names = Array.from({ length: 12 }, (_, index) => `app-${index}`);
    const answers = await Promise.all(names.map((name) => createApp(stage, name)));
    const statuses = answers.map(({ status }) => status).toSorted((one, other) => one - other);
    assert.deepEqual(statuses, [201, 201, ...Array.from({ length: 10 }, () => 403)]);
    assert.equal((await stage.api.db.selectFrom("apps").selectAll().execute()).length, 2);
  });

  test("may be above a plan that was given later: what is there stays", async (t) => {
    const stage = await openStage(t);
    for (const name of ["first", "second", "third"])
      assert.equal((await createApp(stage, name)).status, 201);
    await stage.give("hobby");
    const { body } = await stage.api.call("GET", `/v2/projects/${stage.api.projectId}/apps`);
    assert.equal(body.length, 3);
    assert.equal((await createApp(stage, "fourth")).status, 403);
  });
});

describe("coupons and plans", () => {
  const make = async ({ api, operator }: Stage, code: string, of?: readonly string[]) => {
    const terms = { code, name: "Coupon", coupon_type: "percentage", percentage_rate: 10 };
    const body = { ...terms, ...(of === undefined ? {} : { plans: of }) };
    return await api.call("POST", "/v2/operator/coupons", { token: operator, body });
  };
  const apply = ({ api }: Stage, code: string) =>
    api.call("POST", `/v2/projects/${api.projectId}/billing/coupons/apply`, {
      body: { coupon_code: code },
    });

  test("a coupon that names plans is for their projects alone, and one that names none for all that take any", async (t) => {
    const stage = await openStage(t);
    const unknown = await make(stage, "X", ["huge"]);
    assert.equal(unknown.status, 400);
    assert.match(
      unknown.body.message,
      /^plans names "huge", but must name existing plans: self-hosted, hobby, big/,
    );
    const made = await make(stage, "HOBBY", ["hobby"]);
    assert.deepEqual([made.status, operatorCoupon.parse(made.body).plans], [201, ["hobby"]]);
    assert.equal((await make(stage, "ANY")).body.plans, null);
    const refused = await apply(stage, "HOBBY");
    assert.equal(refused.status, 422);
    assert.match(
      refused.body.message,
      /^The coupon is not for projects with the plan "self-hosted"/,
    );
    await stage.give("hobby");
    assert.equal(
      (await apply(stage, "ANY")).status,
      422,
      "the plan takes only coupons that name it",
    );
    assert.equal((await apply(stage, "HOBBY")).status, 200);
    await stage.give("big");
    assert.equal((await apply(stage, "ANY")).status, 200);
  });

  test("the monthly credit of a plan is a coupon that the platform applies and ends, and nobody else can", async (t) => {
    const stage = await openStage(t);
    const { api, operator } = stage;
    const credits = async () =>
      await api.db
        .selectFrom("coupon_applications")
        .innerJoin("coupons", "coupons.id", "coupon_applications.coupon_id")
        .select([
          "coupons.code",
          "coupons.amount_micros",
          "coupons.frequency",
          "coupon_applications.ended_at",
        ])
        .orderBy("coupon_applications.number")
        .execute();
    await stage.give("hobby");
    await stage.give("hobby");
    const credit = { code: "plan:hobby", amount_micros: "5000000", frequency: "forever" };
    assert.deepEqual(
      await credits(),
      [{ ...credit, ended_at: null }],
      "once, however often the plan is given",
    );
    assert.equal((await apply(stage, "plan:hobby")).status, 404);
    const { body } = await api.call("GET", "/v2/operator/coupons", { token: operator });
    assert.deepEqual(body.items, []);
    await stage.give("big");
    const [ended] = await credits();
    assert.ok(ended?.ended_at instanceof Date);
    await stage.give("hobby");
    assert.deepEqual(
      (await credits()).map(({ ended_at: at }) => at === null),
      [false, true],
    );
  });

  test("projects that have the default plan get its credit without being given it, and lose it with the plan", async (t) => {
    const stage = await openStage(t);
    const { api } = stage;
    await api.addProject("second");
    const asDefault = (cents: number) =>
      readPlans(`default = "free"\n[plans.free]\nmonthly_credit_cents = ${cents}\n[plans.big]\n`);
    const open = async () =>
      (
        await api.db
          .selectFrom("coupon_applications")
          .innerJoin("coupons", "coupons.id", "coupon_applications.coupon_id")
          .select("coupons.amount_micros")
          .where("coupon_applications.ended_at", "is", null)
          .execute()
      ).map(({ amount_micros: micros }) => micros);
    assert.equal(await setPlanCredits(api.db, asDefault(100), Date.now()), 2);
    assert.equal(await setPlanCredits(api.db, asDefault(100), Date.now()), 0);
    assert.deepEqual(await open(), ["1000000", "1000000"]);
    assert.equal(
      await setPlanCredits(api.db, asDefault(300), Date.now()),
      2,
      "another amount is another credit",
    );
    assert.deepEqual(await open(), ["3000000", "3000000"]);
    await stage.give("big");
    assert.equal((await open()).length, 1);
    await Promise.all([1, 2].map(() => setPlanCredits(api.db, asDefault(0), Date.now())));
    assert.deepEqual(await open(), []);
  });
});
