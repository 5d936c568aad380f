// The tables that our migrations make for better-auth are those that it expects, whatever version of it comes next.
import assert from "node:assert/strict";
import { test } from "node:test";
import { betterAuth } from "better-auth";
import { Secret } from "#lib/secret.ts";
import { authSettings, twoFactorSettings } from "#people/auth.ts";
import { asOwner } from "#test/support/as-owner.ts";
import { testDatabase } from "#test/support/database.ts";
import "#test/support/leftovers.ts";

test("better-auth finds all tables and columns that it uses, and misses one that is taken away", async (t) => {
  const { db } = await testDatabase(t);
  const settings = authSettings({ database: db, secret: new Secret("x".repeat(32)), baseUrl: "http://127.0.0.1" });
  const open = () =>
    betterAuth({ ...settings, ...twoFactorSettings, advanced: { ...settings.advanced, database: {} } });
  const ask = (): Promise<unknown> => open().api.getSession({ headers: new Headers() });
  assert.equal(await ask(), null);
  await asOwner(db, async (tx) => {
    await tx.schema.alterTable("person_two_factors").dropColumn("locked_until").execute();
  });
  await assert.rejects(ask(), /locked_until/);
});
