// The audit log on a real database: what an entry holds, its transaction, paging.
import assert from "node:assert/strict";
import { test } from "node:test";
import { record } from "#audit/record.ts";
import { listEntries, type AuditRow, type EntryCursor } from "#audit/audit-store.ts";
import { byPlatform, testAccounts } from "#test/support/accounts.ts";
import "#test/support/leftovers.ts";

test("an entry names who, what, with which outcome, and by which request", async (t) => {
  const { db, projectId } = await testAccounts(t);
  await record(db, {
    projectId,
    action: "secrets.update",
    outcome: "failure",
    by: {
      actor: { type: "service_account", id: "a-token", name: "deployer" },
      request: { id: "r-1", address: "127.0.0.1", userAgent: "a".repeat(5_000) },
    },
    resource: { type: "app", id: `${projectId}-hello`, name: "hello" },
    changes: { DB_PASSWORD: { old: "before", new: "after" } },
    reason: "no permission\0",
  });
  const [row] = await listEntries(db, {
    projectId,
    action: "secrets.update",
    outcome: "failure",
    limit: 1,
  });
  assert.ok(row);
  const { at, at_micros, id, user_agent, ...rest } = row;
  assert.ok(at instanceof Date && id > 0);
  assert.equal(Math.floor(at_micros / 1_000), at.getTime());
  assert.equal(user_agent?.length, 500);
  assert.deepEqual(rest, {
    project_id: projectId,
    action: "secrets.update",
    outcome: "failure",
    actor_type: "service_account",
    actor_id: "a-token",
    actor_name: "deployer",
    resource_type: "app",
    resource_id: `${projectId}-hello`,
    resource_name: "hello",
    request_id: "r-1",
    address: "127.0.0.1",
    changes: { DB_PASSWORD: { old: "[secret]", new: "[secret]" } },
    reason: "no permission",
  });
});

test("an entry lives and dies with the transaction of its change", async (t) => {
  const { db, projectId } = await testAccounts(t);
  const change = db.transaction().execute(async (tx) => {
    await record(tx, { projectId, action: "app.update", by: byPlatform });
    throw new Error("the change failed");
  });
  await assert.rejects(change, /the change failed/);
  assert.deepEqual(await listEntries(db, { projectId, action: "app.update", limit: 10 }), []);
});

test("pages neither repeat nor leave out entries while new ones come in", async (t) => {
  const { db, projectId } = await testAccounts(t);
  const add = (id: string) =>
    record(db, { projectId, action: "app.create", by: byPlatform, resource: { type: "app", id } });
  for (const id of ["1", "2", "3", "4", "5"]) await add(id);
  const seen: (string | null)[] = [];
  let before: EntryCursor | null = null;
  for (;;) {
    const rows: AuditRow[] = await listEntries(db, {
      projectId,
      action: "app.create",
      before,
      limit: 3,
    });
    const page = rows.slice(0, 2);
    const last = page.at(-1) ?? assert.fail("a page is never empty here");
    seen.push(...page.map((row) => row.resource_id));
    await add("new");
    before = { atMicros: last.at_micros, id: last.id };
    if (rows.length <= 2) break;
  }
  assert.deepEqual(seen, ["5", "4", "3", "2", "1"]);
});
