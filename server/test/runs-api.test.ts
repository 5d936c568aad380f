// Reading runs over the wire: lists of async runs and plain calls, one run, its result.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { describe, test, type TestContext } from "node:test";
import * as answers from "@slipway/contract/answers.ts";
import type { RunState } from "@slipway/contract/words.ts";
import { newRunId, type AppId, type ReplicaId } from "#lib/ids.ts";
import { callRecordWriter } from "#runs/call-record-store.ts";
import { startManagementApi, type ApiUnderTest, type Json } from "./support/management-api.ts";
import { insertCall, insertRun, type RowsAddress } from "./support/run-rows.ts";

type Stage = { readonly api: ApiUnderTest; readonly place: RowsAddress; readonly runs: string };

async function stage(
  t: TestContext,
  options: Parameters<typeof startManagementApi>[1] = {},
): Promise<Stage> {
  const api = await startManagementApi(t, options);
  const place = await addApp(api, "my-app");
  return { api, place, runs: `/v2/projects/${api.projectId}/apps/${place.appId}/runs` };
}

async function addApp(api: ApiUnderTest, name: string): Promise<RowsAddress> {
  const body = { name, gitRepo: "acme/shop" };
  const answer = await api.call("POST", `/v2/projects/${api.projectId}/apps/git`, { body });
  assert.equal(answer.status, 201, JSON.stringify(answer.body));
  return { db: api.db, projectId: api.projectId, appId: answer.body.appId as AppId };
}

const at = (second: number): Date => new Date(Date.UTC(2026, 0, 1, 12, 0, second));

async function pageOf(
  api: ApiUnderTest,
  path: string,
): Promise<{ ids: string[]; nextToken?: string }> {
  const answer = await api.call("GET", path);
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  const page = answers.runAndCallPage.parse(answer.body);
  const ids = page.items.map((item) => item.id);
  return page.nextToken === undefined ? { ids } : { ids, nextToken: page.nextToken };
}

/** All pages, one after the other; `between` runs after each. */
async function allOf(
  api: ApiUnderTest,
  path: string,
  between: () => Promise<unknown> = async () => undefined,
) {
  const ids: string[] = [];
  let token: string | undefined;
  for (let pages = 0; pages < 100; pages++) {
    const page = await pageOf(api, token === undefined ? path : `${path}&nextToken=${token}`);
    ids.push(...page.ids);
    token = page.nextToken;
    if (token === undefined) return ids;
    await between();
  }
  throw new Error("the pages do not end");
}

describe("the list of runs", () => {
  test("merges async runs and plain calls, newest first, in pages that neither repeat nor leave out", async (t) => {
    const { api, place, runs } = await stage(t);
    const expected: string[] = [];
    for (let second = 0; second < 23; second++) {
      // Three at each time: order within it is by id.
      const one = newRunId();
      const two = newRunId();
      const three = newRunId();
      await insertRun(place, { id: one, state: "success", acceptedAt: at(second) });
      await insertCall(place, { id: two, receivedAt: at(second) });
      await insertRun(place, { id: three, acceptedAt: at(second) });
      expected.push(...[one, two, three].toSorted());
    }
    await insertRun(await addApp(api, "other"), { state: "success" });
    expected.reverse();
    assert.deepEqual(await allOf(api, `${runs}?pageSize=7`), expected);
    assert.deepEqual((await pageOf(api, runs)).ids, expected.slice(0, 50), "50 without a pageSize");
    assert.deepEqual(
      (await pageOf(api, `${runs}?pageSize=69`)).nextToken,
      undefined,
      "an exact page is the last one",
    );
    const arriving = await allOf(api, `${runs}?pageSize=10`, () => insertRun(place));
    assert.deepEqual(arriving, expected, "what arrives meanwhile stands before the first page");
  });

  test("says for each page how many plain calls of its time were not recorded; the pages add up to all", async (t) => {
    const { api, place, runs } = await stage(t);
    for (const second of [10, 20, 30, 40]) await insertCall(place, { receivedAt: at(second) });
    const leftOut = async (
      appId: AppId,
      calls: readonly (readonly [second: number, calls: number])[],
    ) =>
      await callRecordWriter(api.db).writeLeftOut(
        calls.map(([second, count]) => ({
          id: randomUUID(),
          projectId: place.projectId,
          appId,
          calls: count,
          latestAt: at(second).getTime(),
        })),
      );
    await leftOut(place.appId, [
      [5, 1],
      [20, 20],
      [25, 300],
      [30, 4_000],
      [50, 171_983],
    ]);
    await leftOut((await addApp(api, "other")).appId, [[25, 7]]);
    const page = async (path: string) =>
      answers.runAndCallPage.parse((await api.call("GET", path)).body);
    const first = await page(`${runs}?pageSize=2`);
    const second = await page(`${runs}?pageSize=2&nextToken=${first.nextToken}`);
    assert.deepEqual(
      [first.callsLeftOut, second.callsLeftOut, second.nextToken],
      [171_983, 4_321, undefined],
    );
    assert.equal((await page(runs)).callsLeftOut, 176_304);
    assert.equal((await page(`${runs}?asyncOnly=true`)).callsLeftOut, 0);
  });

  test("keeps microseconds apart, as the database does", async (t) => {
    const { api, place, runs } = await stage(t);
    const ids = [];
    for (let micros = 0; micros < 5; micros++) {
      const id = await insertRun(place);
      const time = `2026-01-01T12:00:00.00000${micros}Z`;
      await api.db
        .updateTable("runs")
        .set({ accepted_at: time as Json })
        .where("id", "=", id)
        .execute();
      ids.unshift(id);
    }
    assert.deepEqual(await allOf(api, `${runs}?pageSize=1`), ids);
  });

  test("is narrowed by asyncOnly and status, together and alone", async (t) => {
    const { api, place, runs } = await stage(t);
    const states: RunState[] = [
      "pending",
      "queued",
      "running",
      "success",
      "failure",
      "cancelled",
      "timeout",
    ];
    const byState = new Map<RunState, string>();
    for (const [second, state] of states.entries()) {
      byState.set(state, await insertRun(place, { state, acceptedAt: at(second) }));
    }
    const good = await insertCall(place, { receivedAt: at(20) });
    const bad = await insertCall(place, { state: "failure", receivedAt: at(21) });
    const all = [bad, good, ...[...byState.values()].toReversed()];
    assert.deepEqual((await pageOf(api, runs)).ids, all);
    assert.deepEqual((await pageOf(api, `${runs}?asyncOnly=true`)).ids, all.slice(2));
    for (const state of states) {
      const calls: string[] = [];
      if (state === "success") calls.push(good);
      if (state === "failure") calls.push(bad);
      assert.deepEqual(
        (await pageOf(api, `${runs}?status=${state}`)).ids,
        [...calls, byState.get(state)],
        state,
      );
      assert.deepEqual(
        (await pageOf(api, `${runs}?status=${state}&asyncOnly=true`)).ids,
        [byState.get(state)],
        state,
      );
    }
  });

  test("refuses tokens that are altered or of another query, and values that are not allowed", async (t) => {
    const { api, place, runs } = await stage(t);
    const other = await addApp(api, "other");
    for (let second = 0; second < 3; second++) {
      await insertRun(place, { state: "failure", acceptedAt: at(second) });
      await insertRun(other, { state: "failure", acceptedAt: at(second) });
    }
    const { nextToken = "" } = await pageOf(api, `${runs}?pageSize=1`);
    const dead = runs.replace(/runs$/, "dead-runs");
    const altered = nextToken.replace(/.$/, (last) => (last === "A" ? "B" : "A"));
    for (const path of [
      `${runs}?nextToken=${altered}`,
      `${runs}?nextToken=1${nextToken}`,
      `${runs}?status=failure&nextToken=${nextToken}`,
      `${runs}?asyncOnly=true&nextToken=${nextToken}`,
      `${dead}?nextToken=${nextToken}`,
      `/v2/projects/${api.projectId}/apps/other/runs?nextToken=${nextToken}`,
    ]) {
      const answer = await api.call("GET", path);
      assert.equal(answer.status, 400, path);
      assert.match(answer.body.message, /^nextToken does not belong to this query/);
    }
    assert.equal(
      (await api.call("GET", `${runs}?nextToken=${nextToken}&pageSize=2`)).status,
      200,
      "the size may change",
    );
    for (const [query, message] of [
      ["pageSize=0", /^pageSize is 0, but must be a whole number from 1 to 200/],
      ["pageSize=201", /^pageSize is 201/],
      ["status=dead", /^status is "dead", but must be one of pending,/],
      ["asyncOnly=1", /^asyncOnly is/],
      ["nextToken=%00", /^nextToken is/],
      ["limit=5", /"limit" is not a parameter/],
    ] as const) {
      const answer = await api.call("GET", `${runs}?${query}`);
      assert.deepEqual(
        [answer.status, message.test(answer.body.message)],
        [400, true],
        answer.body.message,
      );
    }
    assert.equal(
      (await api.call("GET", `/v2/projects/${api.projectId}/apps/none/runs`)).status,
      404,
    );
  });
});

describe("one run", () => {
  test("is shown with the keys that existing clients read, in their order, and ours after them", async (t) => {
    const { api, place, runs } = await stage(t);
    const replicaId = "my-app-0011223344" as ReplicaId;
    const wish = {
      state: "failure",
      acceptedAt: at(0),
      endedAt: at(2),
      attempt: 2,
      statusCode: 500,
      replicaId,
    } as const;
    const id = await insertRun(place, {
      ...wish,
      reason: "It broke.",
      webhookEndpoint: "https://example.org/hook",
    });
    const { status, body } = await api.call("GET", `${runs}/${id}`);
    assert.equal(status, 200);
    assert.deepEqual(Object.keys(body), ["item"]);
    const time = (ms: number): string => new Date(at(0).getTime() + ms).toISOString();
    assert.deepEqual(
      Object.entries(body.item),
      Object.entries({
        async: true,
        completedAt: time(2_000),
        containerId: replicaId,
        containerStartedAt: null,
        createdAt: time(0),
        functionName: "predict",
        id,
        ip: "203.0.113.9",
        method: "POST",
        modelId: place.appId,
        projectId: api.projectId,
        queueProxyReceivedAt: time(0),
        queueProxyWaitStartedAt: time(100),
        queueProxyWaitEndedAt: time(350),
        queueTimeMs: 350,
        region: null,
        responseTimeMs: 2_000,
        runtimeMs: 1_650,
        status: "failure",
        statusCode: 500,
        updatedAt: time(2_000),
        webhookEndpoint: "https://example.org/hook",
        websocket: false,
        activatorQueueTimeMs: 100,
        containerQueueTimeMs: 250,
        totalQueueTimeMs: 350,
        executionTimeMs: 1_650,
        totalResponseTimeMs: 2_000,
        attempts: 2,
        releases: [],
        reason: "It broke.",
        acceptedAt: time(0),
        queuedAt: time(100),
        startedAt: time(350),
        endedAt: time(2_000),
        cancelRequestedAt: null,
        redrivenAs: null,
      }),
    );
  });

  test("may be a plain call, whose milliseconds are whole where clients need them so", async (t) => {
    const { api, place, runs } = await stage(t);
    const id = await insertCall(place, { receivedAt: at(0), isWebSocket: true });
    const { item } = answers.oneRun.parse((await api.call("GET", `${runs}/${id}`)).body);
    assert.deepEqual(
      [item.async, item.websocket, item.status, item.statusCode],
      [false, true, "success", 200],
    );
    assert.deepEqual([item.queueTimeMs, item.responseTimeMs, item.runtimeMs], [12.5, 40.25, 27.75]);
    assert.deepEqual(
      [item.totalQueueTimeMs, item.totalResponseTimeMs, item.executionTimeMs],
      [13, 40, 28],
    );
    assert.equal(item.functionName, "predict");
  });

  test("says what it waits for while it is queued, and counts its time up to now until it has ended", async (t) => {
    const { api, place, runs } = await stage(t, {
      waitReason: (appId) => `A replica of ${appId} is starting.`,
    });
    const acceptedAt = new Date(Date.now() - 60_000);
    const item = async (state: RunState): Promise<Json> => {
      const id = await insertRun(place, {
        state,
        acceptedAt,
        reason: "The latest attempt failed.",
      });
      return answers.oneRun.parse((await api.call("GET", `${runs}/${id}`)).body).item;
    };
    const queued = await item("queued");
    assert.equal(queued.reason, `A replica of ${place.appId} is starting.`);
    assert.ok(
      queued.totalQueueTimeMs >= 60_000 &&
        queued.executionTimeMs === 0 &&
        queued.startedAt === null,
    );
    const pending = await item("pending");
    assert.equal(pending.reason, "The latest attempt failed.");
    assert.ok(pending.activatorQueueTimeMs >= 60_000 && pending.containerQueueTimeMs === 0);
    const running = await item("running");
    assert.ok(
      running.executionTimeMs >= 59_000 &&
        running.completedAt === null &&
        running.totalQueueTimeMs === 350,
    );
  });

  test("is not found in another app or project, nor without a right to see it", async (t) => {
    const { api, place, runs } = await stage(t);
    const id = await insertRun(place, { state: "success", result: { body: Buffer.from("mine") } });
    await addApp(api, "other");
    const strangers = await api.addProject("second");
    const token = await api.issue({ kind: "service_account", projectId: strangers });
    for (const path of [
      `apps/other/runs/${id}`,
      `apps/my-app/runs/${newRunId()}`,
      "apps/my-app/runs/nonsense",
    ]) {
      for (const end of ["", "/result"]) {
        const answer = await api.call("GET", `/v2/projects/${api.projectId}/${path}${end}`);
        assert.equal(answer.status, 404, path);
        assert.match(answer.body.message, /has no run/);
      }
    }
    assert.equal((await api.call("GET", `${runs}/${id}`, { token })).status, 404);
    assert.equal(
      (await api.call("GET", `/v2/projects/${strangers}/apps/my-app/runs/${id}`, { token })).status,
      404,
    );
    const billing = await api.issue({ kind: "service_account", role: "billing" });
    const answer = await api.call("GET", `${runs}/${id}/result`, { token: billing });
    assert.deepEqual(
      [answer.status, /lacks the permission runs.read/.test(answer.body.message)],
      [403, true],
    );
  });
});

describe("the result of a run", () => {
  const fetchRaw = async ({ api, runs }: Stage, id: string) => {
    const response = await fetch(`${api.baseUrl}${runs}/${id}/result`, {
      headers: { authorization: `Bearer ${api.token}` },
    });
    return { response, bytes: Buffer.from(await response.arrayBuffer()) };
  };

  test("is the app's bytes with its content type and status, and a browser does not show it", async (t) => {
    const here = await stage(t);
    const body = Buffer.from(Array.from({ length: 70_000 }, (_, index) => index % 256));
    for (const [contentType, sent] of [
      ["text/html", "text/html"],
      ["application/json", "application/json"],
      ["text/plain; charset=latin1", "text/plain; charset=latin1"],
      [null, "application/octet-stream"],
      ["bad\u00e9\r\nX: y", "application/octet-stream"],
      ["text/plain; x=\u0001y", "application/octet-stream"],
    ] as const) {
      const id = await insertRun(here.place, {
        state: "failure",
        statusCode: 418,
        result: { body, contentType },
      });
      const { response, bytes } = await fetchRaw(here, id);
      assert.equal(response.status, 200);
      assert.equal(response.headers.get("content-type"), sent);
      assert.equal(response.headers.get("slipway-status-code"), "418");
      assert.equal(response.headers.get("slipway-run-id"), id);
      assert.match(response.headers.get("x-request-id") ?? "", /^[0-9a-f-]{36}$/);
      assert.equal(response.headers.get("content-disposition"), `attachment; filename="${id}"`);
      assert.equal(response.headers.get("x-content-type-options"), "nosniff");
      assert.match(
        response.headers.get("content-security-policy") ?? "",
        /^sandbox; default-src 'none'/,
      );
      assert.equal(response.headers.get("cache-control"), "no-store");
      assert.ok(bytes.equals(body), "byte by byte");
    }
    const empty = await insertRun(here.place, {
      state: "success",
      result: { body: Buffer.alloc(0) },
    });
    assert.equal((await fetchRaw(here, empty)).bytes.length, 0);
  });

  test("is refused in a sentence that says why there is none", async (t) => {
    const { api, place, runs } = await stage(t);
    const longAgo = new Date(Date.now() - 8 * 86_400_000);
    const cases = [
      [await insertRun(place), 409, /not ended|it is pending/],
      [await insertRun(place, { state: "running" }), 409, /it is running/],
      [await insertRun(place, { state: "cancelled" }), 404, /was cancelled/],
      [
        await insertRun(place, { state: "timeout", reason: "Too slow." }),
        404,
        /gave no answer. Too slow\./,
      ],
      [
        await insertRun(place, { state: "success", acceptedAt: longAgo }),
        404,
        /deleted 7 days after the end/,
      ],
      [
        await insertRun(place, { state: "failure", acceptedAt: longAgo }),
        404,
        /deleted 7 days after the end/,
      ],
      [
        await insertRun(place, { state: "success", result: { body: null } }),
        404,
        /20000000 bytes long.*1000000/,
      ],
      [await insertCall(place), 404, /plain call/],
    ] as const;
    for (const [id, status, message] of cases) {
      const answer = await api.call("GET", `${runs}/${id}/result`);
      assert.equal(answer.status, status, answer.body.message);
      answers.faultAnswer.parse(answer.body);
      assert.match(answer.body.message, message);
    }
  });
});
