// Every route that changes something, or that the audit log has a word for, is called on a whole
// platform: once so that it works and once so that it is refused. Each leaves exactly the entry
// that it should. Made from the contract's table: a route without a row in `audit-walk-rows.ts`
// fails.
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import type { Route } from "@slipway/contract/route.ts";
import { routeIds, routes, type RouteId } from "@slipway/contract/routes.ts";
import type { Selectable } from "kysely";
import type { Tables } from "#store/tables.ts";
import {
  callerOf,
  partsOf,
  silentPort,
  startWalk,
  type Walk,
  type WalkAnswer,
  type WalkCall,
  type WalkRefusal,
  type WalkResource,
  type WalkRow,
} from "./support/audit-walk.ts";
import { walkCertificate, walkRows } from "./audit-walk-rows.ts";
import "#test/support/leftovers.ts";
import { until } from "#test/support/until.ts";

type Entry = Selectable<Tables["audit_log"]>;

// WebSockets are not called like this: exec.test.ts looks at their entries.
const walked = routeIds.filter((id) => {
  const route: Route = routes[id];
  return route.status !== 101 && (route.method !== "GET" || route.audit !== null);
});

/** Only a platform that gets certificates by itself takes these. */
const certificateRoutes: readonly RouteId[] = ["renewCertificate", "revokeCertificate"];

test("every route that changes something leaves one entry of who did what, and one of who was refused", async (t) => {
  const others = walked.filter((id) => !certificateRoutes.includes(id));
  await walkRoutes(t, await startWalk(t), others);
});

test("so do the routes of certificates", async (t) => {
  const settings = {
    SLIPWAY_PUBLIC_URL: `https://${walkCertificate}`,
    SLIPWAY_TLS_PORT: "0",
    SLIPWAY_ACME_EMAIL: "walk@example.org",
    SLIPWAY_ACME_AGREE_TO_TERMS: "true",
    // The authority never answers.
    SLIPWAY_ACME_DIRECTORY: `https://127.0.0.1:${await silentPort(t)}/directory`,
  };
  await walkRoutes(t, await startWalk(t, settings), certificateRoutes);
});

async function walkRoutes(t: TestContext, walk: Walk, ids: readonly RouteId[]): Promise<void> {
  for (const id of ids) {
    await t.test(id, async () => {
      const row =
        walkRows[id] ??
        assert.fail(`${id} has no row in audit-walk-rows.ts; its opening comment says how`);
      assert.ok(
        routes[id].audit !== null || row.unrecorded,
        `${id} changes something and names no action of the log`,
      );
      const call = await row.succeed(walk);
      const answer = await walk.call(id, call);
      assert.equal(answer.status, row.status ?? routes[id].status, JSON.stringify(answer.body));
      const projectId =
        row.projectOf === undefined ? projectOf(walk, id, call) : row.projectOf(answer, walk);
      const resource = (await row.resource?.(answer, call, walk)) ?? lastOf(walk, id, call);
      await assertSuccess({ walk, id, call, answer, row }, { projectId, resource });
      const refusal = (await row.refuse?.(walk)) ?? { ...call, caller: "inference", status: 403 };
      await assertRefusal(walk, id, refusal, row.refuse === undefined);
    });
  }
  await assertNothingElse(walk);
}

type Made = {
  readonly walk: Walk;
  readonly id: RouteId;
  readonly row: WalkRow;
  readonly call: WalkCall;
  readonly answer: WalkAnswer;
};
type Expected = { readonly projectId: string | null; readonly resource: WalkResource };

async function assertSuccess(
  { walk, id, row, call, answer }: Made,
  expected: Expected,
): Promise<void> {
  if (row.unrecorded !== undefined) {
    return assert.deepEqual(
      await entriesOf(walk, answer),
      [],
      "it leaves no entry, as its row says",
    );
  }
  // Some answers are given before their work is done, so that their time tells nothing.
  const [entry, ...others] = await until(`${id} leaves an entry`, async () => {
    const entries = await entriesOf(walk, answer);
    return entries.length > 0 ? entries : null;
  });
  assert.ok(entry);
  assert.deepEqual(others, [], "one entry and no more");
  assert.deepEqual(
    [entry.action, entry.outcome, entry.actor_type, entry.project_id, entry.reason],
    [routes[id].audit, "success", row.actorType ?? actorTypeOf(id, call), expected.projectId, null],
  );
  assert.deepEqual({ type: entry.resource_type, id: entry.resource_id }, expected.resource);
  assert.equal(entry.address, "127.0.0.1");
}

async function assertRefusal(
  walk: Walk,
  id: RouteId,
  refusal: WalkRefusal,
  isUsual: boolean,
): Promise<void> {
  const answer = await walk.call(id, refusal);
  assert.equal(answer.status, refusal.status, JSON.stringify(answer.body));
  if (answer.status >= 400) assert.equal(typeof answer.body.message, "string");
  const entries = await entriesOf(walk, answer);
  if (refusal.unrecorded !== undefined)
    return assert.deepEqual(entries, [], "no entry, as its row says");
  const [entry, ...others] = entries;
  assert.ok(entry, `the refused ${id} left no entry`);
  assert.deepEqual(others, [], "one entry and no more");
  assert.deepEqual(
    [entry.action, entry.outcome, entry.actor_type, entry.reason],
    [routes[id].audit, "failure", actorTypeOf(id, refusal), refusal.reason ?? answer.body.message],
  );
  if (!isUsual) return;
  assert.equal(entry.project_id, walk.projectId, "into the log of the caller's own project");
  assert.deepEqual({ type: entry.resource_type, id: entry.resource_id }, lastOf(walk, id, refusal));
}

/**
 * Whoever acts through the API has a request: nothing is recorded of them beside it but from where
 * they come. And no secret is in any entry.
 */
async function assertNothingElse({ db }: Walk): Promise<void> {
  const entries = await db.selectFrom("audit_log").selectAll().execute();
  const strange = entries.filter(
    (entry) =>
      entry.request_id === null &&
      entry.actor_type !== "platform" &&
      entry.action !== "token.new_address",
  );
  assert.deepEqual(strange, []);
  assert.doesNotMatch(JSON.stringify(entries), /walked-secret|whsec_|eyJ/);
}

async function entriesOf({ db }: Walk, { requestId }: WalkAnswer): Promise<Entry[]> {
  assert.notEqual(requestId, "", "every answer names its request");
  return await db
    .selectFrom("audit_log")
    .selectAll()
    .where("request_id", "=", requestId)
    .orderBy("id")
    .execute();
}

function actorTypeOf(id: RouteId, call: WalkCall): string {
  const caller = callerOf(id, call);
  if (typeof caller !== "string") return caller.type;
  return {
    owner: "service_account",
    inference: "inference_token",
    operator: "operator",
    nobody: "anonymous",
  }[caller];
}

function projectOf(walk: Walk, id: RouteId, call: WalkCall): string | null {
  return partsOf(walk, id, call).get("project_id") ?? null;
}

/** What the last id of the path stands for; without one, the platform. */
function lastOf(walk: Walk, id: RouteId, call: WalkCall): WalkResource {
  const [name, value] = [...partsOf(walk, id, call)].at(-1) ?? [];
  if (name === undefined || value === undefined || unnamed.has(name))
    return { type: "platform", id: "" };
  return { type: resourceTypes[name] ?? name.replace(/_id$/, ""), id: value };
}

/** Sessions of people, and codes that sign in, are in no entry. */
const unnamed = new Set(["session_id", "user_code"]);

const resourceTypes: Readonly<Record<string, string>> = {
  delivery_id: "webhook_delivery",
  endpoint_id: "webhook_endpoint",
  secret_id: "webhook_secret",
  code: "coupon",
  host: "git_credential",
  run_app: "app",
  api_key_id: "inference",
  token_id: "operator",
  key_id: "signing_key",
};
