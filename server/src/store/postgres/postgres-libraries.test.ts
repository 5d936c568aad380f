// The links between the libraries of the installed PostgreSQL: made where the package lacks them.
import assert from "node:assert/strict";
import { mkdirSync, readFileSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { temporaryFolder } from "#test/support/folder.ts";
import { linkLibraries } from "./postgres-libraries.ts";

/** A package with one library and two names for it. */
function packageOf(t: TestContext): string {
  const root = temporaryFolder(t, "package");
  mkdirSync(join(root, "native/lib"), { recursive: true });
  writeFileSync(join(root, "native/lib/libpq.so.5.18"), "the library");
  const links = ["libpq.so", "libpq.so.5"].map((name) => ({
    source: "native/lib/libpq.so.5.18",
    target: `native/lib/${name}`,
  }));
  writeFileSync(join(root, "native/pg-symlinks.json"), JSON.stringify(links));
  return root;
}

test("links that the package lacks are made beside the database, and again by the next version", (t) => {
  const folder = temporaryFolder(t, "database");
  for (const root of [packageOf(t), packageOf(t)]) {
    const libraries = linkLibraries(root, folder);
    assert.equal(libraries, join(folder, "libraries"));
    assert.deepEqual(readdirSync(libraries).toSorted(), ["libpq.so", "libpq.so.5"]);
    assert.equal(readFileSync(join(libraries, "libpq.so.5"), "utf8"), "the library");
    writeFileSync(join(root, "native/lib/libpq.so.5.18"), "changed");
    assert.equal(readFileSync(join(libraries, "libpq.so.5"), "utf8"), "changed");
  }
});

test("nothing is made where the package has them, or lists none", (t) => {
  const folder = temporaryFolder(t, "database");
  const root = packageOf(t);
  for (const name of ["libpq.so", "libpq.so.5"])
    symlinkSync("libpq.so.5.18", join(root, "native/lib", name));
  assert.equal(linkLibraries(root, folder), null);
  assert.equal(linkLibraries(temporaryFolder(t, "other"), folder), null);
  assert.deepEqual(readdirSync(folder), []);
});
