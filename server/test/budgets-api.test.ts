// Budgets over the wire: set, shown and deleted by those who may, with the words and entries that
// the contract promises.
import assert from "node:assert/strict";
import { describe, test, type TestContext } from "node:test";
import { faultAnswer } from "@slipway/contract/answers.ts";
import { budget } from "@slipway/contract/plan-routes.ts";
import { startManagementApi, type ApiAnswer, type ApiUnderTest } from "./support/management-api.ts";
import { monthClock, spend, thisMonth } from "./budgets-stage.ts";
import "#test/support/leftovers.ts";

type Stage = ApiUnderTest & {
  budget(method: string, body?: unknown, app?: string): Promise<ApiAnswer>;
};

async function openStage(t: TestContext): Promise<Stage> {
  const api = await startManagementApi(t, { clock: monthClock });
  const made = await api.call("POST", `/v2/projects/${api.projectId}/apps/git`, {
    body: { gitRepo: "someone/apps", name: "example" },
  });
  assert.equal(made.status, 201);
  return {
    ...api,
    async budget(method, body, app) {
      const path = app === undefined ? "budget" : `apps/${app}/budget`;
      const answer = await api.call(
        method,
        `/v2/projects/${api.projectId}/${path}`,
        body === undefined ? {} : { body },
      );
      if (answer.status === 200) budget.parse(answer.body);
      else faultAnswer.parse(answer.body);
      return answer;
    },
  };
}

const actionsOf = async ({ db }: ApiUnderTest): Promise<string[]> =>
  (
    await db
      .selectFrom("audit_log")
      .select(["action", "outcome", "resource_type"])
      .where("action", "like", "budget.%")
      .orderBy("id")
      .execute()
  ).map(({ action, outcome, resource_type: type }) => `${action} ${outcome} ${type}`);

describe("a budget", () => {
  test("is set, shown and deleted, of the project and of an app, each by itself", async (t) => {
    const stage = await openStage(t);
    const none = await stage.budget("GET");
    assert.deepEqual([none.status, none.body.message], [404, "The project has no budget."]);
    const set = await stage.budget("PUT", { amount_cents: 5000 });
    assert.deepEqual(
      { ...set.body, created_at: "", updated_at: "" },
      {
        project_id: stage.projectId,
        app_id: null,
        amount_cents: 5000,
        currency: "USD",
        warn_percent: [80, 100],
        stop: false,
        webhook_url: null,
        month: thisMonth,
        spent_cents: 0,
        warned_percent: null,
        stopped_at: null,
        created_at: "",
        updated_at: "",
      },
    );
    const ofApp = await stage.budget(
      "PUT",
      { amount_cents: 10, warn_percent: [50, 10], stop: true },
      "example",
    );
    assert.deepEqual(
      [ofApp.body.app_id, ofApp.body.warn_percent],
      [`${stage.projectId}-example`, [10, 50]],
    );
    const again = await stage.budget("PUT", { amount_cents: 7000, warn_percent: [] });
    assert.deepEqual([again.body.amount_cents, again.body.warn_percent], [7000, []]);
    assert.equal(again.body.created_at, set.body.created_at);
    assert.deepEqual((await stage.budget("GET")).body, again.body);
    assert.deepEqual((await stage.budget("DELETE")).body, again.body);
    assert.equal((await stage.budget("DELETE")).status, 404);
    assert.equal((await stage.budget("GET", undefined, "example")).status, 200);
    assert.equal((await stage.budget("GET", undefined, "another")).status, 404);
    assert.deepEqual(await actionsOf(stage), [
      "budget.set success project",
      "budget.set success app",
      "budget.set success project",
      "budget.delete success project",
      "budget.delete failure project",
    ]);
  });

  test("that is used up already stops at once when it is set, and goes on when it is raised", async (t) => {
    const stage = await openStage(t);
    await spend(stage.db, stage, { cents: 1234 });
    const set = await stage.budget("PUT", { amount_cents: 1234, stop: true });
    assert.deepEqual([set.body.spent_cents, set.body.warned_percent], [1234, 100]);
    assert.equal(Date.parse(set.body.stopped_at), monthClock.now());
    const raised = await stage.budget("PUT", { amount_cents: 1235, stop: true });
    assert.deepEqual([raised.body.stopped_at, raised.body.warned_percent], [null, 80]);
    const lowered = await stage.budget("PUT", { amount_cents: 1, stop: true });
    assert.notEqual(lowered.body.stopped_at, null);
    await stage.budget("PUT", { amount_cents: 1, stop: true });
    assert.equal((await stage.budget("DELETE")).status, 200);
    assert.deepEqual(
      (await actionsOf(stage)).map((entry) => entry.replace(" success project", "")),
      [
        "budget.set",
        "budget.warn",
        "budget.stop",
        "budget.set",
        "budget.warn",
        "budget.resume",
        "budget.set",
        "budget.warn",
        "budget.stop",
        "budget.set",
        "budget.resume",
        "budget.delete",
      ],
    );
  });

  test("of one app counts what that app costs, the project's what all do", async (t) => {
    const stage = await openStage(t);
    await spend(stage.db, stage, { cents: 300, app: "example" });
    await spend(stage.db, stage, { cents: 200, app: "other" });
    await spend(stage.db, stage, { cents: 900, app: "example", month: "2020-01" });
    const ofApp = await stage.budget("PUT", { amount_cents: 1000 }, "example");
    const ofProject = await stage.budget("PUT", { amount_cents: 1000 });
    assert.deepEqual([ofApp.body.spent_cents, ofProject.body.spent_cents], [300, 500]);
  });

  test("is refused with the field, what was given and what may be", async (t) => {
    const stage = await openStage(t);
    const refusals: readonly (readonly [unknown, string])[] = [
      [{}, "amount_cents is missing; it must be a whole number from 1 to 100000000000."],
      [
        { amount_cents: 0 },
        "amount_cents is 0, but must be a whole number from 1 to 100000000000.",
      ],
      [
        { amount_cents: 1, warn_percent: [0] },
        "warn_percent is [0], but must be a list of at most 10 whole numbers",
      ],
      [
        { amount_cents: 1, warn_percent: [80, 80] },
        "warn_percent is [80, 80], but must be a list of at most 10",
      ],
      [
        { amount_cents: 1, warn_percent: 80 },
        "warn_percent is 80, but must be a list of at most 10 whole numbers",
      ],
      [{ amount_cents: 1, stop: "yes" }, 'stop is "yes", but must be true or false.'],
      [
        { amount_cents: 1, webhook_url: "ftp://x" },
        "webhook_url is not shown here, but must be an http or https URL",
      ],
      [
        { amount_cent: 1 },
        '"amount_cent" is not a field of this request; did you mean amount_cents?',
      ],
    ];
    for (const [body, message] of refusals) {
      const answer = await stage.budget("PUT", body);
      assert.equal(answer.status, 400);
      assert.ok(answer.body.message.startsWith(message), answer.body.message);
    }
  });

  test("is for those who may see and change what is charged", async (t) => {
    const stage = await openStage(t);
    const path = `/v2/projects/${stage.projectId}/budget`;
    const statuses = async (token: string | null) => {
      const put = await stage.call("PUT", path, { token, body: { amount_cents: 1 } });
      const get = await stage.call("GET", path, { token });
      const remove = await stage.call("DELETE", path, { token });
      return [put.status, get.status, remove.status];
    };
    const ofRole = (role: "admin" | "member" | "billing") =>
      stage.issue({ kind: "service_account", role });
    assert.deepEqual(await statuses(await ofRole("billing")), [200, 200, 200]);
    assert.deepEqual(await statuses(await ofRole("admin")), [403, 404, 403]);
    assert.deepEqual(await statuses(await ofRole("member")), [403, 403, 403]);
    assert.deepEqual(await statuses(null), [401, 401, 401]);
    const stranger = await stage.issue({
      kind: "service_account",
      projectId: await stage.addProject("second"),
    });
    assert.deepEqual(await statuses(stranger), [404, 404, 404]);
  });
});
