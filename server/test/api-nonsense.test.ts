// Requests to the management API that fit nothing: unknown paths, wrong methods, bodies and queries
// of any form. Each is refused in words, and none is a fault of the platform.
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";
import { describe, test } from "node:test";
import { sql } from "kysely";
import fc from "fast-check";
import * as answers from "@slipway/contract/answers.ts";
import { fieldNames } from "@slipway/contract/app-fields.ts";
import type { Route } from "@slipway/contract/route.ts";
import { routeIds, routes } from "@slipway/contract/routes.ts";
import type { AppId, BuildId } from "#lib/ids.ts";
import { anyText } from "./support/any-text.ts";
import { countOf } from "./support/drawn-cases.ts";
import { asOwner } from "./support/as-owner.ts";
import { startManagementApi, type ApiUnderTest } from "./support/management-api.ts";
import { until } from "./support/until.ts";

const bodies = countOf({ what: "bodies", complete: 300, short: 60 });
const queries = countOf({ what: "queries", complete: 200, short: 40 });

type Created = { readonly appId: AppId; readonly buildId: BuildId };

async function create(api: ApiUnderTest, fields: object = {}): Promise<Created> {
  const body = { name: "my-app", gitRepo: "acme/shop", ...fields };
  const answer = await api.call("POST", `/v2/projects/${api.projectId}/apps/git`, { body });
  assert.equal(answer.status, 201, JSON.stringify(answer.body));
  return answer.body;
}

/** A path of the table with its names filled in. */
function pathOf(route: Route, api: ApiUnderTest, created: Created): string {
  return route.path
    .replace("{project_id}", api.projectId)
    .replace("{app_id}", created.appId)
    .replace("{build_id}", created.buildId)
    .replace(/\{(?:run|delivery|endpoint|secret)_id\}/, "00000000-0000-4000-8000-000000000000")
    .replace("{host}", "github.com");
}

test("a request without a body is answered also when it names a content type, as some clients always do", async (t) => {
  const api = await startManagementApi(t);
  const headers = { "content-type": "application/json" };
  const gone = await api.call(
    "DELETE",
    `/v2/projects/${api.projectId}/git-credentials/github.com`,
    { headers },
  );
  assert.equal(gone.status, 404);
  const made = await api.call("POST", `/v2/projects/${api.projectId}/webhook-secrets`, { headers });
  assert.equal(made.status, 201, "the body may be left out");
});

describe("a request that fits nothing", () => {
  test("an unknown path is 404, a known one with another method 405 with Allow, both with a message", async (t) => {
    const api = await startManagementApi(t);
    for (const path of [
      "/v2",
      "/v2/nothing",
      "/v3/projects",
      "/favicon.ico",
      "/v2/projects/p-1/apps/a/b/c/d",
    ]) {
      const answer = await api.call("GET", path);
      assert.equal(answer.status, 404, path);
      answers.faultAnswer.parse(answer.body);
      assert.ok(answer.headers.get("x-request-id"));
    }
    const known: readonly (readonly [string, string, string])[] = [
      ["PUT", `/v2/projects/${api.projectId}/apps/git`, "POST, OPTIONS"],
      ["GET", `/v2/projects/${api.projectId}/apps/git`, "POST, OPTIONS"],
      ["PUT", "/v2/projects", "GET, POST, HEAD, OPTIONS"],
      ["DELETE", "/healthz", "GET, HEAD, OPTIONS"],
      [
        "POST",
        `/v2/projects/${api.projectId}/git-credentials/x`,
        "GET, PUT, DELETE, HEAD, OPTIONS",
      ],
    ];
    for (const [method, path, allow] of known) {
      const answer = await api.call(
        method,
        path,
        method === "GET" ? {} : { text: "not even JSON" },
      );
      assert.equal(answer.status, 405, `${method} ${path}`);
      assert.equal(answer.headers.get("allow"), allow);
      answers.faultAnswer.parse(answer.body);
    }
    const options = await api.call("OPTIONS", "/v2/projects", { token: null });
    assert.deepEqual(
      [options.status, options.headers.get("allow")],
      [204, "GET, POST, HEAD, OPTIONS"],
    );
    const head = await api.call("HEAD", "/v2/projects");
    assert.deepEqual([head.status, head.body], [200, ""]);
  });

  test("doubled slashes and a slash at the end do not matter", async (t) => {
    const api = await startManagementApi(t);
    for (const path of [
      "//v2/projects",
      "/v2//projects",
      "/v2/projects/",
      `//v2/projects//${api.projectId}///apps`,
    ]) {
      assert.equal((await api.call("GET", path)).status, 200, path);
    }
  });

  test("paths that cannot be read are refused, never a fault of the platform", async (t) => {
    const api = await startManagementApi(t);
    for (const path of [
      "/v2/%",
      "/v2/projects/%ZZ/apps",
      `/v2/projects/${api.projectId}/apps/%C0%AF`,
      "/v2/projects/%00/apps",
      `/v2/projects/${"x".repeat(5000)}/apps`,
    ]) {
      const answer = await api.call("GET", path);
      assert.ok(answer.status >= 400 && answer.status < 500, `${path}: ${answer.status}`);
      answers.faultAnswer.parse(answer.body);
    }
  });

  test("the Authorization header has one form", async (t) => {
    const api = await startManagementApi(t);
    for (const authorization of [
      "",
      "Bearer",
      "Bearer ",
      api.token,
      `Basic ${api.token}`,
      `Bearer ${api.token} x`,
      `Bearer ${api.token},`,
    ]) {
      const answer = await api.call("GET", "/v2/projects", {
        token: null,
        headers: { authorization },
      });
      assert.equal(answer.status, 401, authorization.slice(0, 20));
      assert.doesNotMatch(answer.body.message, /eyJ/, "the token is not repeated");
    }
    const lower = await api.call("GET", "/v2/projects", {
      token: null,
      headers: { authorization: `bearer ${api.token}` },
    });
    assert.equal(lower.status, 200);
  });

  test("a body that ends early or lies about its length does not harm", async (t) => {
    const api = await startManagementApi(t);
    const { port } = new URL(api.baseUrl);
    const head = `POST /v2/projects/${api.projectId}/apps/git HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${api.token}\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n`;
    const socket = connect(Number(port), "127.0.0.1");
    await once(socket, "connect");
    socket.write(`${head}{"name"`);
    // By the time that a later request is answered, this one waits for its body.
    await api.call("GET", "/v2/projects");
    socket.destroy();
    await once(socket, "close");
    assert.equal((await api.call("GET", "/healthz")).status, 200);
    const row = await until("the attempt is recorded", () =>
      api.db
        .selectFrom("audit_log")
        .select("reason")
        .where("action", "=", "app.create")
        .executeTakeFirst(),
    );
    assert.match(row.reason ?? "", /closed before/, "and nobody is told that the database is away");
  });

  test("any JSON to any route that takes one, and any query, is answered without a fault of the platform", async (t) => {
    const api = await startManagementApi(t);
    const created = await create(api);
    const targets = routeIds
      .map((id): Route => routes[id])
      .filter((route) => route.body !== undefined)
      .map((route) => ({ method: route.method, path: pathOf(route, api, created) }));
    const text = anyText({ maxLength: 20 });
    const value = fc.oneof(fc.jsonValue({ maxDepth: 3 }), text, fc.double());
    const body = fc.oneof(
      fc.jsonValue(),
      fc.dictionary(
        fc.oneof(fc.constantFrom(...fieldNames, "kind", "secret", "username", "__proto__"), text),
        value,
      ),
    );
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...targets), body, async ({ method, path }, given) => {
        const answer = await api.call(method, path, { body: given });
        assert.ok(answer.status < 500, `${method} ${path}: ${JSON.stringify(answer.body)}`);
        if (answer.status >= 400) answers.faultAnswer.parse(answer.body);
      }),
      { numRuns: bodies },
    );
    const log = `/v2/projects/${api.projectId}/apps/${created.appId}/logs`;
    const key = fc.constantFrom(
      "pageSize",
      "nextToken",
      "container",
      "search",
      "afterDate",
      "beforeDate",
      "direction",
      "stream",
      "runId",
      "x",
    );
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(key, fc.oneof(text, fc.string(), fc.integer().map(String))), {
          maxLength: 3,
        }),
        async (pairs) => {
          const query = pairs
            .map(([name, given]) => `${name}=${encodeURIComponent(given.toWellFormed())}`)
            .join("&");
          const answer = await api.call("GET", `${log}?${query}`);
          assert.ok(answer.status < 500, `${query}: ${JSON.stringify(answer.body)}`);
        },
      ),
      { numRuns: queries },
    );
  });

  test("a body nested without end is refused", async (t) => {
    const api = await startManagementApi(t);
    for (const text of [
      "[".repeat(400_000),
      `{"cpu":${"[".repeat(100_000)}${"]".repeat(100_000)}}`,
    ]) {
      const answer = await api.call("POST", `/v2/projects/${api.projectId}/apps/git`, { text });
      assert.equal(answer.status, 400);
      assert.ok(answer.body.message.length < 1000);
    }
  });
});

test("what nobody expected is answered 500 with an id, and nothing of its cause", async (t) => {
  const api = await startManagementApi(t);
  await api.call("GET", "/v2/projects");
  await asOwner(api.db, (tx) => sql`alter table projects rename to projects_elsewhere`.execute(tx));
  const answer = await api.call("GET", "/v2/projects");
  assert.equal(answer.status, 500);
  const id = answer.headers.get("x-request-id");
  assert.deepEqual(answer.body, {
    message: `Internal error; see the platform's log for the id ${id}.`,
  });
});
