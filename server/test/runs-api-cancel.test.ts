// Cancelling runs over the wire, at every stage, with the platform that works on them played by the
// test.
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import * as answers from "@slipway/contract/answers.ts";
import type { AppId, RunId } from "#lib/ids.ts";
import { startManagementApi, type ApiUnderTest } from "./support/management-api.ts";
import { insertCall, insertRun, type RowsAddress } from "./support/run-rows.ts";
import { until } from "./support/until.ts";

type Stage = {
  api: ApiUnderTest;
  place: RowsAddress;
  path: (id: string) => string;
  onCancelled: RunId[];
  heard: (string | null)[];
};

async function stage(t: TestContext, options: { cancelWaitMs?: number } = {}): Promise<Stage> {
  const onCancelled: RunId[] = [];
  const heard: (string | null)[] = [];
  const api = await startManagementApi(t, {
    runs: { ...options, onCancelled: (runId) => onCancelled.push(runId) },
  });
  api.notifications.listen("run_cancels", (payload) => heard.push(payload));
  const body = { name: "my-app", gitRepo: "acme/shop" };
  const created = await api.call("POST", `/v2/projects/${api.projectId}/apps/git`, { body });
  const place = { db: api.db, projectId: api.projectId, appId: created.body.appId as AppId };
  return {
    api,
    place,
    path: (id) => `/v2/projects/${api.projectId}/apps/my-app/runs/${id}`,
    onCancelled,
    heard,
  };
}

/** What the holder of a run does once it has stopped it. */
async function settle({ api }: Stage, id: RunId): Promise<void> {
  const end = {
    state: "cancelled",
    ended_at: new Date(),
    lease_holder: null,
    lease_until: null,
  } as const;
  await api.db.updateTable("runs").set(end).where("id", "=", id).execute();
}

async function rowOf({ api }: Stage, id: RunId) {
  return await api.db.selectFrom("runs").selectAll().where("id", "=", id).executeTakeFirstOrThrow();
}

test("a run that nobody works on is cancelled at once, and whoever had it before can no longer write", async (t) => {
  const here = await stage(t);
  const id = await insertRun(here.place);
  const answer = await here.api.call("DELETE", here.path(id));
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  const { item } = answers.oneRun.parse(answer.body);
  assert.deepEqual(
    [item.status, item.reason],
    ["cancelled", "It was cancelled before it was sent to the app."],
  );
  assert.ok(item.endedAt !== null && item.cancelRequestedAt !== null);
  assert.equal((await rowOf(here, id)).lease_epoch, 1);
  const kept = await here.api.db
    .selectFrom("run_requests")
    .where("run_id", "=", id)
    .selectAll()
    .execute();
  assert.equal(kept.length, 0, "its request is not kept");
  const again = await here.api.call("DELETE", here.path(id));
  assert.deepEqual(
    [again.status, again.body.message],
    [409, "The run has already ended: it is cancelled."],
  );
  const rows = await here.api.db
    .selectFrom("audit_log")
    .select(["outcome", "resource_id"])
    .where("action", "=", "run.cancel")
    .orderBy("id")
    .execute();
  assert.deepEqual(rows, [
    { outcome: "success", resource_id: id },
    { outcome: "failure", resource_id: id },
  ]);
});

for (const state of ["queued", "running"] as const) {
  test(`a run that is ${state} is asked to end, its holder is told, and the answer waits for the end`, async (t) => {
    const here = await stage(t);
    const id = await insertRun(here.place, { state });
    let hasAnswered = false;
    const asking = here.api.call("DELETE", here.path(id)).finally(() => (hasAnswered = true));
    await until("its holder is onCancelled within the process", () =>
      here.onCancelled.includes(id),
    );
    await until("and through the database", () => here.heard.includes(id));
    const asked = await rowOf(here, id);
    assert.deepEqual([asked.state, asked.lease_epoch, asked.lease_holder], [state, 1, "test"]);
    assert.notEqual(asked.cancel_requested_at, null);
    // Asked a second time while it ends: fine, and the first time stands.
    const second = here.api.call("DELETE", here.path(id));
    await until("the second one is onCancelled too", () => here.onCancelled.length === 2);
    assert.equal(hasAnswered, false);
    await settle(here, id);
    for (const answer of await Promise.all([asking, second])) {
      assert.equal(answer.status, 200);
      assert.equal(answers.oneRun.parse(answer.body).item.status, "cancelled");
    }
    assert.deepEqual((await rowOf(here, id)).cancel_requested_at, asked.cancel_requested_at);
  });
}

test("a run that does not end is shown as it is when the wait is over", async (t) => {
  const here = await stage(t, { cancelWaitMs: 300 });
  const id = await insertRun(here.place, { state: "running" });
  const answer = await here.api.call("DELETE", here.path(id));
  assert.equal(answer.status, 200);
  assert.equal(answer.body.item.status, "running");
  assert.notEqual(answer.body.item.cancelRequestedAt, null);
});

test("what has ended, is a plain call, or is another's, cannot be cancelled", async (t) => {
  const here = await stage(t);
  const { api, place } = here;
  for (const state of ["success", "failure", "timeout"] as const) {
    const answer = await api.call("DELETE", here.path(await insertRun(place, { state })));
    assert.deepEqual(
      [answer.status, answer.body.message],
      [409, `The run has already ended: it is ${state}.`],
    );
  }
  const call = await api.call("DELETE", here.path(await insertCall(place)));
  assert.deepEqual(
    [call.status, call.body.message],
    [409, "The run has already ended: it is success."],
  );
  assert.equal(
    (await api.call("DELETE", here.path("00000000-0000-4000-8000-000000000000"))).status,
    404,
  );
  const id = await insertRun(place);
  const strangers = await api.addProject("second");
  const token = await api.issue({ kind: "service_account", projectId: strangers });
  assert.equal((await api.call("DELETE", here.path(id), { token })).status, 404);
  const billing = await api.issue({ kind: "service_account", role: "billing" });
  assert.equal((await api.call("DELETE", here.path(id), { token: billing })).status, 403);
  assert.equal((await rowOf(here, id)).state, "pending");
});

test("cancelling while the run is claimed ends in one of both, never in neither", async (t) => {
  const here = await stage(t);
  for (let round = 0; round < 20; round++) {
    const id = await insertRun(here.place);
    const held = {
      state: "queued",
      lease_holder: "other",
      lease_until: new Date(Date.now() + 60_000),
    } as const;
    const claim = here.api.db
      .updateTable("runs")
      .set((row) => ({ ...held, lease_epoch: row("lease_epoch", "+", 1) }))
      .where("id", "=", id)
      .where("state", "=", "pending")
      .executeTakeFirst();
    const cancel = here.api.call("DELETE", here.path(id));
    const isClaimed = (await claim).numUpdatedRows === 1n;
    if (isClaimed) {
      await until("the holder is onCancelled", () => here.onCancelled.includes(id));
      await settle(here, id);
    }
    const answer = await cancel;
    assert.deepEqual([answer.status, answer.body.item.status], [200, "cancelled"]);
    assert.equal((await rowOf(here, id)).lease_epoch, 1, "either the claim or the end came first");
  }
});
