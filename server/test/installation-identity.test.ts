// The identity of an installation is in its database, and stays what it was when the database was
// used before it had one.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { test } from "node:test";
import { readInstallationId } from "#store/installation-store.ts";
import { addInstance } from "#test/support/instances.ts";
import { testDatabase } from "#test/support/database.ts";

test("a new database takes the id of the folder, and every later folder finds it there", async (t) => {
  const { db } = await testDatabase(t);
  assert.equal(await readInstallationId(db, "first"), "first");
  assert.equal(await readInstallationId(db, "second"), "first");
  assert.equal(await readInstallationId(db, "first"), "first");
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
    assert.equal(await readInstallationId(db, folder), expected, folder);
  }
});
