// The identity of an installation is in its database, and stays what it was when the database was
// used before it had one.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { test } from "node:test";
import { sql } from "kysely";
import { readInstallationId } from "#store/installation-store.ts";
import { addInstance } from "#test/support/instances.ts";
import { testDatabase } from "#test/support/database.ts";

test("a new database takes the id of the folder, and every later folder finds it there", async (t) => {
  const { db } = await testDatabase(t);
  assert.equal(await readInstallationId(db, folderOf("first")), "first");
  assert.equal(await readInstallationId(db, folderOf("second")), "first");
  assert.equal(await readInstallationId(db, folderOf("first")), "first");
});

test("a database of an earlier version takes the id that its replicas carry", async (t) => {
  for (const [folder, expected] of [
    ["older", "older"],
    ["empty", "latest"],
  ] as const) {
    const { db } = await testDatabase(t);
    await addInstance(db, { instanceId: "older", name: "docker" });
    await addInstance(db, { instanceId: "latest", name: "docker" });
    const at = new Date(Date.UTC(2026, 0, 1));
    await db.updateTable("instances").set({ locked_at: at }).where("id", "=", "older").execute();
    assert.equal(await readInstallationId(db, folderOf(folder)), expected, folder);
  }
});

test("a database that is made anew keeps the installation that its folder worked for", async (t) => {
  const { db } = await testDatabase(t);
  const folder = { instanceId: "second", installationId: "first" };
  assert.equal(await readInstallationId(db, folder), "first");
});

test("a copy of a database becomes an installation of its own as the guide says", async (t) => {
  const { db } = await testDatabase(t);
  await addInstance(db, { instanceId: "original", name: "docker" });
  assert.equal(await readInstallationId(db, folderOf("original")), "original");
  await sql`update installation set id = gen_random_uuid()::text`.execute(db);
  await sql`delete from instances`.execute(db);
  const own = await readInstallationId(db, folderOf("of the copy"));
  assert.match(own, /^[0-9a-f-]{36}$/);
  assert.equal(await readInstallationId(db, folderOf("of the copy")), own);
});

/** A data folder that nobody has used with another installation. */
function folderOf(instanceId: string): { instanceId: string; installationId: string } {
  return { instanceId, installationId: instanceId };
}
