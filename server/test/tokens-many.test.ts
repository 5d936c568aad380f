// Queries that must not read the tokens and invitations of everybody else, however many there are.
import assert from "node:assert/strict";
import { test } from "node:test";
import { sql } from "kysely";
import type { ProjectId } from "#lib/ids.ts";
import { countActiveAccounts, listAccounts } from "#accounts/token-store.ts";
import { isInvited } from "#people/people-store.ts";
import type { Tx } from "#store/database.ts";
import { testDatabase } from "#test/support/database.ts";
import "#test/support/leftovers.ts";

test("what is looked up of one project or address is found by an index", async (t) => {
  const { db } = await testDatabase(t);
  const now = new Date();
  const project = "p-00000001" as ProjectId;
  const queries: readonly (readonly ["tokens" | "invitations", (tx: Tx) => Promise<unknown>])[] = [
    ["tokens", (tx) => listAccounts(tx, { kind: "service_account", projectId: project, limit: 10, now })],
    ["tokens", (tx) => listAccounts(tx, { kind: "operator", projectId: null, limit: 10, now })],
    ["tokens", (tx) => countActiveAccounts(tx, { kind: "inference", projectId: project, now })],
    ["tokens", (tx) => countActiveAccounts(tx, { kind: "operator", projectId: null, now })],
    ["invitations", (tx) => isInvited(tx, { email: "ada@example.test", at: now })],
  ];
  for (const [index, [table, query]] of queries.entries()) {
    await db.transaction().execute(async (tx) => {
      // Of a table that is almost empty the planner would read all; where there is no index for it, it still has to.
      await sql`set local enable_seqscan = off`.execute(tx);
      await query(tx);
      const { rows } = await sql<{ scans: unknown }>`
        select seq_scan as scans from pg_stat_xact_user_tables where relname = ${table}`.execute(tx);
      assert.equal(Number(rows[0]?.scans), 0, `query ${index} reads all ${table}`);
    });
  }
});
