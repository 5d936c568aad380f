// Queries that must not read the tokens of everybody else, however many there are.
import assert from "node:assert/strict";
import { test } from "node:test";
import { sql } from "kysely";
import type { ProjectId } from "#lib/ids.ts";
import { countActiveAccounts, listAccounts } from "#accounts/token-store.ts";
import type { Tx } from "#store/database.ts";
import { asOwner } from "#test/support/as-owner.ts";
import { testDatabase } from "#test/support/database.ts";
import "#test/support/leftovers.ts";

const others = 5_000;

test("what is looked up of one project is found by an index", async (t) => {
  const { db } = await testDatabase(t);
  const now = new Date();
  const project = "p-00000001" as ProjectId;
  const queries: readonly ((tx: Tx) => Promise<unknown>)[] = [
    (tx) => listAccounts(tx, { kind: "service_account", projectId: project, limit: 10, now }),
    (tx) => listAccounts(tx, { kind: "operator", projectId: null, limit: 10, now }),
    (tx) => countActiveAccounts(tx, { kind: "inference", projectId: project, now }),
    (tx) => countActiveAccounts(tx, { kind: "operator", projectId: null, now }),
  ];
  await sql`insert into projects (id, name) values ('p-0000000f', 'others')`.execute(db);
  await sql`insert into tokens (id, account_id, kind, project_id, name, role)
    select id, id, 'service_account', 'p-0000000f', 'other', 'member'
      from (select gen_random_uuid() as id from generate_series(1, ${others})) as made`.execute(db);
  await asOwner(db, (tx) => sql`analyze tokens, projects`.execute(tx));
  for (const [index, query] of queries.entries()) {
    await db.transaction().execute(async (tx) => {
      const before = await rowsRead(tx);
      await query(tx);
      const count = (await rowsRead(tx)) - before;
      assert.ok(count < 10, `query ${index} reads ${count} tokens`);
    });
  }
});

/** As PostgreSQL counts them for this connection. */
async function rowsRead(tx: Tx): Promise<number> {
  const { rows } = await sql<{ count: unknown }>`
    select seq_tup_read + idx_tup_fetch as count from pg_stat_xact_user_tables where relname = 'tokens'`.execute(
    tx,
  );
  return Number(rows[0]?.count);
}
