// The audit log over the wire, line by line as the interface has it: who may read it, its
// parameters, its pages, its entries.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { describe, test, type TestContext } from "node:test";
import { sql } from "kysely";
import * as answers from "@slipway/contract/answers.ts";
import { auditLogPage } from "@slipway/contract/audit-routes.ts";
import { auditToken } from "#audit/audit-log.ts";
import type { ProjectId } from "#lib/ids.ts";
import { asOwner, emptyAuditLog } from "./support/as-owner.ts";
import {
  startManagementApi,
  type ApiUnderTest,
  type CallOptions,
  type Json,
} from "./support/management-api.ts";

const dayMs = 86_400_000;
const pathOf = (projectId: string): string => `/v2/projects/${projectId}/audit-log`;

async function read(api: ApiUnderTest, query: string = "", options: CallOptions = {}) {
  const answer = await api.call("GET", `${pathOf(api.projectId)}?${query}`, options);
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  const page = auditLogPage.parse(answer.body);
  assert.equal(page.hasMore, page.nextPageToken !== undefined);
  return page;
}

async function assertRefused(api: ApiUnderTest, query: string, form: RegExp): Promise<void> {
  const answer = await api.call("GET", `${pathOf(api.projectId)}?${query}`);
  assert.equal(answer.status, 400, `${query} ${JSON.stringify(answer.body)}`);
  assert.match(answers.faultAnswer.parse(answer.body).message, form, query);
}

/** Rows of another time than now; returns their resources, newest first. */
async function fill(
  api: ApiUnderTest,
  rows: readonly Json[],
  projectId: ProjectId = api.projectId,
): Promise<string[]> {
  const defaults = {
    action: "app.create",
    outcome: "success",
    actor_type: "person",
    actor_id: "ada",
  };
  const made = rows.map((row) => ({
    project_id: projectId,
    ...defaults,
    resource_type: "x",
    ...row,
  }));
  await api.db.insertInto("audit_log").values(made).execute();
  return made.map((row) => row.resource_id).toReversed();
}

/** Entries that are gone, as old ones are one day. */
async function remove(api: ApiUnderTest, ids: readonly string[]): Promise<void> {
  await asOwner(api.db, (tx) =>
    tx.deleteFrom("audit_log").where("resource_id", "in", ids).execute(),
  );
}

/** Nothing but what the test adds: starting made entries too. */
async function stage(
  t: TestContext,
  options: Parameters<typeof startManagementApi>[1] = {},
): Promise<ApiUnderTest> {
  const api = await startManagementApi(t, options);
  await emptyAuditLog(api.db);
  return api;
}

const idsOf = (page: { logs: readonly { resource: { id: string | null } | null }[] }) =>
  page.logs.map((entry) => entry.resource?.id ?? null);

async function allOf(
  api: ApiUnderTest,
  query: string,
  between: () => Promise<unknown> = async () => undefined,
) {
  const ids: (string | null)[] = [];
  for (let token: string | undefined = "", pages = 0; token !== undefined; pages++) {
    assert.ok(pages < 100, "the pages do not end");
    const page = await read(api, `${query}${token === "" ? "" : `&nextToken=${token}`}`);
    ids.push(...idsOf(page));
    token = page.nextPageToken;
    await between();
  }
  return ids;
}

describe("who reads the audit log", () => {
  test("is the project's owner: other roles and tokens for calls get 403, strangers 404, others 401", async (t) => {
    const api = await stage(t);
    const path = pathOf(api.projectId);
    for (const role of ["admin", "member", "billing"] as const) {
      const answer = await api.call("GET", path, {
        token: await api.issue({ kind: "service_account", role }),
      });
      assert.equal(answer.status, 403, role);
      assert.match(
        answers.faultAnswer.parse(answer.body).message,
        /lacks the permission audit_log.read/,
      );
    }
    const inference = await api.call("GET", path, {
      token: await api.issue({ kind: "inference" }),
    });
    assert.equal(inference.status, 403);
    answers.faultAnswer.parse(inference.body);
    const other = await api.addProject("second");
    const stranger = await api.issue({ kind: "service_account", projectId: other });
    const unlike = await api.call("GET", pathOf("p-00000000"), { token: stranger });
    const answer = await api.call("GET", path, { token: stranger });
    assert.deepEqual([answer.status, unlike.status], [404, 404]);
    assert.deepEqual(answers.faultAnswer.parse(answer.body), unlike.body, "as if there were none");
    const unsigned = `${Buffer.from('{"alg":"none"}').toString("base64url")}.${api.token.split(".")[1] ?? ""}.`;
    for (const token of [null, "nonsense", `${api.token}x`, unsigned]) {
      const refused = await api.call("GET", path, { token });
      assert.equal(refused.status, 401);
      answers.faultAnswer.parse(refused.body);
    }
    const basic = await api.call("GET", path, {
      token: null,
      headers: { authorization: "Basic YTpi" },
    });
    assert.equal(basic.status, 401);
    for (const method of ["POST", "PUT", "PATCH", "DELETE"]) {
      assert.equal((await api.call(method, path)).status, 405, "entries are never changed");
    }
  });

  test("finds in it who was refused, and that the operator read it, but not the owner's own reading", async (t) => {
    const api = await stage(t);
    await read(api);
    assert.deepEqual((await read(api)).logs, []);
    await api.call("GET", pathOf(api.projectId), {
      token: await api.issue({ kind: "inference", name: "caller" }),
    });
    const token = await api.issue({ kind: "operator", name: "root" });
    assert.equal((await api.call("GET", pathOf(api.projectId), { token })).status, 200);
    const { logs } = await read(api, "action=audit_log.read");
    assert.deepEqual(
      logs.map(({ actor, outcome }) => [actor.type, actor.name, outcome]),
      [
        ["operator", "root", "success"],
        ["inference_token", "caller", "failure"],
      ],
    );
  });
});

describe("an entry", () => {
  test("names time, action, actor, outcome, resource, request and change, and no secret", async (t) => {
    const api = await stage(t);
    const path = `/v2/projects/${api.projectId}/secrets`;
    const before = Date.now();
    const headers = { "user-agent": "tests/1.0" };
    const changed = await api.call("PATCH", path, { body: { KEY: "hidden-value" }, headers });
    assert.equal(changed.status, 200);
    const { logs } = await read(api);
    const [entry] = logs;
    assert.ok(entry && logs.length === 1);
    const { id, timestamp, actor, changes, ...rest } = entry;
    assert.match(id, /^\d+$/);
    assert.match(timestamp, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/);
    assert.ok(Math.abs(Date.parse(timestamp) - before) < 60_000);
    assert.deepEqual([actor.type, actor.name], ["service_account", "owner"]);
    assert.ok(
      JSON.stringify(changes).includes("KEY") && !JSON.stringify(logs).includes("hidden-value"),
    );
    assert.deepEqual(rest, {
      action: "secrets.update",
      outcome: "success",
      resource: { type: "project", id: api.projectId, name: null },
      requestId: changed.headers.get("x-request-id"),
      address: "127.0.0.1",
      userAgent: "tests/1.0",
      reason: null,
    });
    assert.deepEqual((await read(api, `actor=${actor.id ?? ""}`)).logs, [entry]);
    await api.call("PATCH", path, { text: "[", headers });
    const [failure] = (await read(api)).logs;
    assert.equal(failure?.outcome, "failure");
    assert.ok(failure.reason);
  });

  test("may name nobody and nothing", async (t) => {
    const api = await stage(t);
    await fill(api, [{ actor_type: "anonymous", actor_id: null, resource_type: null }]);
    const [entry] = (await read(api)).logs;
    assert.deepEqual(
      [entry?.actor, entry?.resource],
      [{ type: "anonymous", id: null, name: null }, null],
    );
  });
});

describe("the parameters", () => {
  test("narrow by time, action, actor and outcome, together and alone", async (t) => {
    const api = await stage(t);
    const base = Date.now() - 10 * dayMs;
    const rows = Array.from({ length: 48 }, (_, index) => ({
      at: new Date(base + index * 1_000),
      resource_id: String(index),
      action: ["app.create", "secrets.read", "build.cancel"][index % 3],
      actor_id: ["ada", "bob", null, "%_'"][index % 4],
      outcome: index % 5 === 0 ? "failure" : "success",
    }));
    await fill(api, rows);
    await fill(api, rows, await api.addProject("second"));
    const time = (index: number): string =>
      encodeURIComponent(new Date(base + index * 1_000).toISOString());
    for (const action of [null, "app.create", "secrets.read", "app.delete"]) {
      for (const actor of [null, "ada", "%_'", "ADA"]) {
        for (const outcome of [null, "success", "failure"]) {
          for (const [from, to] of [
            [0, 48],
            [7, 31],
          ] as const) {
            const query = [
              `from=${time(from)}&to=${time(to)}`,
              ...(action === null ? [] : [`action=${action}`]),
              ...(actor === null ? [] : [`actor=${encodeURIComponent(actor)}`]),
              ...(outcome === null ? [] : [`outcome=${outcome}`]),
            ].join("&");
            const expected = rows
              .slice(from, to)
              .filter(
                (row) =>
                  (action ?? row.action) === row.action && (actor ?? row.actor_id) === row.actor_id,
              )
              .filter((row) => (outcome ?? row.outcome) === row.outcome)
              .map((row) => row.resource_id)
              .toReversed();
            assert.deepEqual(await allOf(api, `${query}&limit=5`), expected, query);
          }
        }
      }
    }
  });

  test("take times in all forms of RFC 3339: from is included, to is not, to the microsecond", async (t) => {
    const api = await stage(t);
    const day = new Date(Date.now() - 2 * dayMs).toISOString().slice(0, 10);
    for (const micros of ["000000", "000001", "000002"]) {
      const at = sql`${`${day}T12:00:00.${micros}Z`}::timestamptz`;
      await fill(api, [{ at, resource_id: micros }]);
    }
    const ids = async (from: string, to: string) =>
      idsOf(
        await read(api, `from=${encodeURIComponent(from)}&to=${encodeURIComponent(to)}`),
      ).toReversed();
    assert.deepEqual(await ids(`${day}T12:00:00.000001Z`, `${day}T12:00:00.000002Z`), ["000001"]);
    assert.deepEqual(await ids(`${day}t14:00:00.0000002+02:00`, `${day}T10:00:00.00000190-02:00`), [
      "000001",
    ]);
    assert.deepEqual(await ids(`${day} 12:00:00z`, `${day}T12:00:01.5Z`), [
      "000000",
      "000001",
      "000002",
    ]);
    assert.deepEqual(await ids("2016-12-31T23:59:60Z", `${day}T12:00:00.000001-00:00`), ["000000"]);
    assert.deepEqual(await ids("0000-01-01T00:00:00+10:00", "9999-12-31T23:59:59Z"), [
      "000000",
      "000001",
      "000002",
    ]);
    assert.deepEqual(await ids("0001-01-01T00:00:00Z", "1999-01-01T00:00:00Z"), []);
    assert.deepEqual(await ids(`${day}T12:00:00Z`, `${day}T12:00:00Z`), []);
  });

  test("clamp from to what is kept, and say how long that is", async (t) => {
    const api = await stage(t);
    const at = (days: number): Date => new Date(Date.now() - days * dayMs);
    await fill(api, [
      { at: at(366), resource_id: "gone" },
      { at: at(364), resource_id: "kept" },
    ]);
    for (const query of ["", "from=1970-01-01T00:00:00Z"]) {
      const page = await read(api, query);
      assert.deepEqual(
        [idsOf(page), page.hasMore, page.retentionDays],
        [["kept"], false, 365],
        query,
      );
    }
    assert.deepEqual(await allOf(api, `to=${at(365.5).toISOString()}`), []);
  });

  test("limit the page to 50 entries, or 1 to 200", async (t) => {
    const api = await stage(t);
    const ids = await fill(
      api,
      Array.from({ length: 201 }, (_, index) => ({ resource_id: String(index) })),
    );
    for (const [query, count] of [
      ["", 50],
      ["limit=1", 1],
      ["limit=200", 200],
      ["limit=", 50],
    ] as const) {
      const page = await read(api, query);
      assert.deepEqual([page.logs.length, page.hasMore], [count, true], query);
    }
    await remove(api, ["0"]);
    const exact = await read(api, "limit=200");
    assert.deepEqual(
      [exact.logs.length, exact.hasMore, exact.nextPageToken],
      [200, false, undefined],
    );
    assert.equal(new Set(idsOf(exact)).size, ids.length - 1);
  });

  test("are refused with a sentence when they are not allowed", async (t) => {
    const api = await stage(t);
    const future = new Date(Date.now() + dayMs).toISOString();
    for (const [query, form] of [
      ["limit=0", /^limit is 0, but must be a whole number from 1 to 200/],
      ["limit=201", /^limit is 201/],
      ["limit=-1", /^limit is/],
      ["limit=1.5", /^limit is/],
      ["limit=ten", /^limit is/],
      ["limit=1&limit=2", /^limit is/],
      ["outcome=SUCCESS", /^outcome is "SUCCESS", but must be one of success, failure|^outcome is/],
      ["action=secrets", /^action is "secrets", but must be of the form <area>.<verb>/],
      [`action=a.${"b".repeat(200)}`, /^action is/],
      ["actor=%00", /^actor is/],
      [`actor=${"a".repeat(301)}`, /^actor is/],
      ["from=yesterday", /^from is "yesterday", but must be a (valid )?time.*RFC 3339/],
      ["to=2026-02-30T00:00:00Z", /^to is/],
      ["to=2026-02-30", /^to is/],
      ["from=2026-01-01T00:00:00+01:00", /^from is.*written %2B/],
      ["from=2026-01-01T00:00:00Z&from=2026-01-02T00:00:00Z", /^from is/],
      ["from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", /^from is after to\.$/],
      [`from=${future}`, /^from is after to, which is now/],
      ["nextToken=%00", /^nextToken is/],
      ["nextToken=nonsense", /^nextToken does not belong to this query/],
      ["pageSize=5", /"pageSize" is not a parameter/],
    ] as const) {
      await assertRefused(api, query, form);
    }
  });
});

describe("pages", () => {
  test("neither repeat nor leave out entries of one instant, while others arrive and old ones expire", async (t) => {
    const api = await stage(t);
    const at = new Date(Date.now() - 5 * dayMs);
    const rows = Array.from({ length: 23 }, (_, index) => ({
      at,
      resource_id: String(index),
      outcome: index % 2 === 0 ? "success" : "failure",
    }));
    const ids = await fill(api, rows);
    assert.deepEqual(await allOf(api, "limit=5"), ids);
    const arriving = await allOf(api, "limit=4", () => fill(api, [{ resource_id: "new" }]));
    assert.deepEqual(arriving, ids, "what arrives meanwhile stands before the first page");
    await remove(api, ["new"]);
    let oldest = 0;
    const expiring = await allOf(api, "limit=4", async () => {
      const gone = [String(oldest++), String(oldest++)];
      await remove(api, gone);
    });
    assert.deepEqual(
      expiring,
      ids.slice(0, expiring.length),
      "those that are left, in their order",
    );
    assert.ok(expiring.length >= 12 && expiring.length < 23);
  });

  test("go by time, whatever the order of storing, and tell microseconds apart", async (t) => {
    const api = await stage(t);
    const second = new Date(Date.now() - dayMs).toISOString().slice(0, 19);
    for (const micros of [3, 1, 5, 2, 4]) {
      await fill(api, [
        { at: sql`${`${second}.00000${micros}Z`}::timestamptz`, resource_id: String(micros) },
      ]);
    }
    assert.deepEqual(await allOf(api, "limit=1"), ["5", "4", "3", "2", "1"]);
  });

  test("refuse a token that was altered or is of another query; the limit may change", async (t) => {
    const api = await stage(t);
    const at = new Date(Date.now() - 1_000);
    await fill(
      api,
      Array.from({ length: 9 }, (_, index) => ({ at, resource_id: String(index) })),
    );
    const from = new Date(Date.now() - dayMs).toISOString();
    const query = `limit=2&from=${from}`;
    const token = (await read(api, query)).nextPageToken ?? assert.fail("there are more");
    assert.equal((await read(api, `limit=5&from=${from}&nextToken=${token}`)).logs.length, 5);
    const sameTime = encodeURIComponent(from.replace("Z", "000+00:00"));
    assert.equal(
      (await read(api, `from=${sameTime}&nextToken=${token}`)).logs.length,
      7,
      "the same time",
    );
    const form = /^nextToken does not belong to this query/;
    for (let index = 0; index < token.length; index++) {
      const other = token[index] === "7" ? "8" : "7";
      await assertRefused(
        api,
        `${query}&nextToken=${token.slice(0, index)}${other}${token.slice(index + 1)}`,
        form,
      );
    }
    const other = await api.addProject("second");
    for (const elsewhere of [
      "limit=2",
      `limit=2&from=${new Date(Date.now() - 2 * dayMs).toISOString()}`,
      `${query}&to=${new Date(Date.now() + dayMs).toISOString()}`,
      `${query}&action=app.create`,
      `${query}&actor=ada`,
      `${query}&outcome=success`,
    ]) {
      await assertRefused(api, `${elsewhere}&nextToken=${token}`, form);
    }
    const stranger = await api.issue({ kind: "service_account", projectId: other });
    const answer = await api.call("GET", `${pathOf(other)}?${query}&nextToken=${token}`, {
      token: stranger,
    });
    assert.equal(answer.status, 400);
    for (const bad of [
      `0${token}`,
      token.toUpperCase(),
      `${token}A`,
      token.slice(1),
      randomUUID(),
    ]) {
      await assertRefused(api, `${query}&nextToken=${bad}`, form);
    }
    const scope = {
      projectId: api.projectId,
      from: null,
      to: null,
      action: null,
      actorId: null,
      outcome: null,
    };
    for (const atMicros of [8.64e15, Number.MAX_SAFE_INTEGER, 36 ** 11 - 1]) {
      const made = auditToken(scope, { atMicros, id: 1 });
      const { status } = await api.call("GET", `${pathOf(api.projectId)}?nextToken=${made}`);
      assert.equal(status, atMicros <= 8.64e15 ? 200 : 400, "one's own making");
    }
  });
});
