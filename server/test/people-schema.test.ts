// The tables that our migrations make are those that better-auth expects, whatever version of it
// comes next.
import assert from "node:assert/strict";
import { test } from "node:test";
import { betterAuth } from "better-auth";
import { providerTables } from "#people/provider-auth.ts";
import { asOwner } from "#test/support/as-owner.ts";
import { testDatabase } from "#test/support/database.ts";
import "#test/support/leftovers.ts";

test("better-auth finds all tables and columns that it uses, and misses one that is taken away", async (t) => {
  const { db } = await testDatabase(t);
  const open = () =>
    betterAuth({
      ...providerTables,
      baseURL: "http://127.0.0.1",
      secrets: [{ version: 1, value: "x".repeat(32) }],
      database: { db, type: "postgres" },
      telemetry: { enabled: false },
      logger: { disabled: true },
    });
  const ask = (): Promise<unknown> => open().api.getSession({ headers: new Headers() });
  assert.equal(await ask(), null);
  await asOwner(db, async (tx) => {
    await tx.schema.alterTable("person_accounts").dropColumn("id_token").execute();
  });
  await assert.rejects(ask(), /id_token/);
});
