// What a folder of this machine makes of a backup that it cannot keep.
import assert from "node:assert/strict";
import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { test } from "node:test";
import { CannotStart } from "#lib/cannot-start.ts";
import { temporaryFolder } from "#test/support/folder.ts";
import { LocalFolder } from "./local-folder.ts";

test("a backup whose file cannot be made is refused in words before anything is read", async (t) => {
  const dir = temporaryFolder(t, "backups");
  writeFileSync(join(dir, "file"), "");
  const folder = new LocalFolder(dir);
  const refused = folder.write("file/name.age", () =>
    Promise.reject(new Error("the database was read")),
  );
  await assert.rejects(refused, (error) => {
    assert.ok(error instanceof CannotStart, String(error));
    assert.match(error.message, /^The backup could not be written: ENOTDIR/);
    return true;
  });
  assert.deepEqual(readdirSync(dir), ["file"]);
});

test("a backup is complete when it has its name, and one that fails leaves nothing", async (t) => {
  const dir = temporaryFolder(t, "backups");
  const folder = new LocalFolder(dir);
  assert.equal(await folder.write("one.age", (to) => pipeline(["content"], to)), 7);
  const failed = folder.write("two.age", () => Promise.reject(new CannotStart("no database")));
  await assert.rejects(failed, /no database/);
  assert.deepEqual(readdirSync(dir), ["one.age"]);
});
