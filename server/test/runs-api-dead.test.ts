// Dead runs over the wire: listed, redriven one or all, purged.
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import * as answers from "@slipway/contract/answers.ts";
import type { AppId, RunId } from "#lib/ids.ts";
import { startManagementApi, type ApiUnderTest } from "./support/management-api.ts";
import { insertCall, insertRun, type RowsAddress } from "./support/run-rows.ts";
import { until } from "./support/until.ts";

type Stage = { api: ApiUnderTest; place: RowsAddress; app: string; heard: (string | null)[] };

async function stage(t: TestContext): Promise<Stage> {
  const api = await startManagementApi(t);
  const heard: (string | null)[] = [];
  api.notifications.listen("runs", (payload) => heard.push(payload));
  const body = { name: "my-app", gitRepo: "acme/shop" };
  const created = await api.call("POST", `/v2/projects/${api.projectId}/apps/git`, { body });
  const place = { db: api.db, projectId: api.projectId, appId: created.body.appId as AppId };
  return { api, place, app: `/v2/projects/${api.projectId}/apps/my-app`, heard };
}

const at = (second: number): Date => new Date(Date.UTC(2026, 0, 1, 12, 0, second));

async function dead({ api, app }: Stage, query = ""): Promise<string[]> {
  const answer = await api.call("GET", `${app}/dead-runs${query}`);
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  return answers.runPage.parse(answer.body).items.map((item) => item.id);
}

async function requestOf({ api }: Stage, id: string) {
  return await api.db
    .selectFrom("run_requests")
    .selectAll()
    .where("run_id", "=", id as RunId)
    .executeTakeFirst();
}

test("dead runs are those that failed and can be run again, newest first", async (t) => {
  const here = await stage(t);
  const { place } = here;
  for (const state of ["pending", "queued", "running", "success", "cancelled"] as const)
    await insertRun(place, { state });
  await insertCall(place, { state: "failure" });
  const ids: RunId[] = [];
  for (let second = 0; second < 5; second++) {
    ids.unshift(
      await insertRun(place, {
        state: second % 2 === 0 ? "failure" : "timeout",
        acceptedAt: at(second),
      }),
    );
  }
  assert.deepEqual(await dead(here), ids);
  assert.deepEqual(await dead(here, "?status=timeout"), [ids[1], ids[3]]);
  const first = await here.api.call("GET", `${here.app}/dead-runs?pageSize=2`);
  const second = await dead(here, `?pageSize=3&nextToken=${first.body.nextToken}`);
  assert.deepEqual([...first.body.items.map((item: { id: string }) => item.id), ...second], ids);
  assert.equal((await here.api.call("GET", `${here.app}/dead-runs?status=success`)).status, 400);
});

test("a redriven run is a new one with the same request, and the old one names it", async (t) => {
  const here = await stage(t);
  const { api, place, app } = here;
  const body = Buffer.from(Array.from({ length: 300_000 }, (_, index) => (index * 7919) % 256));
  const hook = "https://example.org/hook";
  const id = await insertRun(place, {
    state: "failure",
    attempt: 3,
    body,
    statusCode: 500,
    webhookEndpoint: hook,
  });
  await api.db
    .updateTable("runs")
    .set({ webhook_secret_sealed: "v1.sealed" })
    .where("id", "=", id)
    .execute();
  const answer = await api.call("POST", `${app}/runs/${id}/redrive`);
  assert.equal(answer.status, 201, JSON.stringify(answer.body));
  const { runId } = answers.redrivenRun.parse(answer.body);
  const row = await api.db
    .selectFrom("runs")
    .selectAll()
    .where("id", "=", runId as RunId)
    .executeTakeFirstOrThrow();
  assert.deepEqual(
    [row.state, row.attempt, row.retries_max, row.status_code],
    ["pending", 0, 2, null],
  );
  assert.deepEqual([row.method, row.path, row.webhook_endpoint], ["POST", "/predict", hook]);
  assert.equal(
    row.webhook_secret_sealed,
    "v1.sealed",
    "its delivery is signed as the caller asked for",
  );
  assert.deepEqual(
    [row.project_id, row.app_id, row.lease_epoch],
    [place.projectId, place.appId, 0],
  );
  const request = await requestOf(here, runId);
  assert.equal(request?.target, "/predict?a=1");
  assert.equal(request?.lines, "Content-Type: application/json\r\n");
  assert.ok(request?.body.equals(body), "byte by byte");
  const old = await api.call("GET", `${app}/runs/${id}`);
  assert.deepEqual([old.body.item.status, old.body.item.redrivenAs], ["failure", runId]);
  assert.deepEqual(await dead(here), []);
  await until("whoever works on runs is told", () => here.heard.includes(place.appId));
  const again = await api.call("POST", `${app}/runs/${id}/redrive`);
  assert.deepEqual(
    [again.status, again.body.message],
    [409, `The run was already redriven, as run ${runId}.`],
  );
  const log = await api.db
    .selectFrom("audit_log")
    .selectAll()
    .where("action", "=", "runs.redrive")
    .execute();
  assert.deepEqual(
    log.map(({ outcome, resource_id: on }) => [outcome, on]),
    [
      ["success", id],
      ["failure", id],
    ],
  );
});

test("redriving a run many times at once makes one new run", async (t) => {
  const here = await stage(t);
  for (let round = 1; round <= 10; round++) {
    const id = await insertRun(here.place, { state: "timeout" });
    const one = () => here.api.call("POST", `${here.app}/runs/${id}/redrive`);
    const all = () => here.api.call("POST", `${here.app}/dead-runs/redrive`);
    const found = await Promise.all([one(), one(), all(), one(), one(), one(), one(), one()]);
    const made =
      found.filter(({ status }) => status === 201).length + Number(found[2]?.body.redriven);
    assert.equal(made, 1);
    const rows = await here.api.db
      .selectFrom("runs")
      .select("id")
      .where("state", "=", "pending")
      .execute();
    assert.equal(rows.length, round);
  }
});

test("only a dead run can be redriven, and the refusal says why", async (t) => {
  const here = await stage(t);
  const { api, place, app } = here;
  for (const [id, status, message] of [
    [
      await insertRun(place, { state: "success" }),
      409,
      /is success; only one that ended as failure or timeout/,
    ],
    [await insertRun(place, { state: "running" }), 409, /is running;/],
    [await insertCall(place, { state: "failure" }), 409, /was a plain call/],
    ["00000000-0000-4000-8000-000000000000", 404, /has no run/],
  ] as const) {
    const answer = await api.call("POST", `${app}/runs/${id}/redrive`);
    assert.deepEqual(
      [answer.status, message.test(answer.body.message)],
      [status, true],
      answer.body.message,
    );
  }
  const id = await insertRun(place, { state: "failure" });
  const strangers = await api.addProject("second");
  const token = await api.issue({ kind: "service_account", projectId: strangers });
  assert.equal((await api.call("POST", `${app}/runs/${id}/redrive`, { token })).status, 404);
  await api.db.deleteFrom("run_requests").where("run_id", "=", id).execute();
  assert.match(
    (await api.call("POST", `${app}/runs/${id}/redrive`)).body.message,
    /no longer kept/,
  );
});

test("all dead runs are redriven in batches, the oldest first, up to a limit and of one status when asked", async (t) => {
  const here = await stage(t);
  const { api, place, app } = here;
  const failed: RunId[] = [];
  for (let second = 0; second < 6; second++) {
    failed.push(await insertRun(place, { state: "failure", acceptedAt: at(second) }));
  }
  const late = await insertRun(place, { state: "timeout", acceptedAt: at(30) });
  // What ends after the request came may be one of its own new runs: it is left for another
  // request.
  const endedAt = new Date(Date.now() + 3_600_000);
  const later = await insertRun(place, { state: "failure", acceptedAt: at(50), endedAt });
  const two = await api.call("POST", `${app}/dead-runs/redrive?limit=2`);
  assert.deepEqual([two.status, two.body], [200, { redriven: 2, hasMore: true }]);
  assert.deepEqual((await dead(here)).toReversed(), [...failed.slice(2), late, later]);
  const ofOneKind = await api.call("POST", `${app}/dead-runs/redrive?status=failure`);
  assert.deepEqual(ofOneKind.body, { redriven: 4, hasMore: false });
  assert.deepEqual(await dead(here), [later, late]);
  for (let count = 0; count < 1_100; count += 100) {
    await Promise.all(
      Array.from({ length: 100 }, () => insertRun(place, { state: "failure", acceptedAt: at(40) })),
    );
  }
  const all = await api.call("POST", `${app}/dead-runs/redrive`);
  assert.deepEqual(all.body, { redriven: 1_101, hasMore: false });
  const count = await api.db
    .selectFrom("runs")
    .innerJoin("run_requests", "run_id", "runs.id")
    .where("state", "=", "pending")
    .select((row) => row.fn.countAll<number>().as("count"))
    .executeTakeFirstOrThrow();
  assert.equal(count.count, 1_107, "each with its request");
  const log = await api.db
    .selectFrom("audit_log")
    .select("changes")
    .where("action", "=", "runs.redrive")
    .execute();
  assert.equal(log.length, 2 + 3, "an audit row for each batch");
  assert.deepEqual((await api.call("POST", `${app}/dead-runs/redrive`)).body, {
    redriven: 0,
    hasMore: false,
  });
  assert.equal((await api.call("POST", `${app}/dead-runs/redrive?limit=0`)).status, 400);
  assert.equal(
    (await api.call("POST", `/v2/projects/${api.projectId}/apps/none/dead-runs/redrive`)).status,
    404,
  );
});

test("purged runs stay listed, without their requests, and cannot be redriven", async (t) => {
  const here = await stage(t);
  const { api, place, app } = here;
  const ids = [];
  for (let second = 0; second < 4; second++) {
    ids.push(
      await insertRun(place, {
        state: second === 3 ? "timeout" : "failure",
        acceptedAt: at(second),
      }),
    );
  }
  const unfinished = await insertRun(place, { state: "running" });
  assert.deepEqual((await api.call("DELETE", `${app}/dead-runs?limit=1`)).body, {
    purged: 1,
    hasMore: true,
  });
  assert.deepEqual((await api.call("DELETE", `${app}/dead-runs?status=failure`)).body, {
    purged: 2,
    hasMore: false,
  });
  assert.deepEqual(await dead(here), [ids[3]]);
  assert.deepEqual((await api.call("DELETE", `${app}/dead-runs`)).body, {
    purged: 1,
    hasMore: false,
  });
  for (const id of ids) {
    assert.equal(await requestOf(here, id), undefined);
    assert.equal((await api.call("GET", `${app}/runs/${id}`)).status, 200);
    const answer = await api.call("POST", `${app}/runs/${id}/redrive`);
    assert.deepEqual([answer.status, /no longer kept/.test(answer.body.message)], [409, true]);
  }
  assert.notEqual(
    await requestOf(here, unfinished),
    undefined,
    "what has not ended is not touched",
  );
  const log = await api.db
    .selectFrom("audit_log")
    .select("id")
    .where("action", "=", "runs.purge")
    .execute();
  assert.equal(log.length, 3);
  const billing = await api.issue({ kind: "service_account", role: "billing" });
  assert.equal((await api.call("DELETE", `${app}/dead-runs`, { token: billing })).status, 403);
});
