// What commands of a build have locked is removed all the same, also by a platform that is not
// root.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { chmodSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { temporaryFolder } from "#test/support/folder.ts";

const isRoot = process.getuid?.() === 0;
/** Root removes what it likes, so the code runs as somebody else where the test is root. */
const asSomebody = isRoot ? ["setpriv", "--reuid=65533", "--clear-groups"] : [];

function whyNot(): string | false {
  try {
    execFileSync("env", [...asSomebody, "test", "-r", import.meta.filename]);
    return false;
  } catch {
    return "another user cannot read the code of this test";
  }
}

const code = `
const { BuildCache } = await import(process.argv[1]);
const { execFileSync } = await import("node:child_process");
const { systemClock } = await import(process.argv[2]);
const cache = new BuildCache({ dir: process.argv[3], clock: systemClock });
const lock = (folder) => execFileSync("sh", ["-c", 'mkdir -p "$1/a/b" && touch "$1/a/b/c" && chmod 000 "$1/a/b" "$1/a"', "sh", folder]);
const given = { ageMsMax: Infinity, signal: new AbortController().signal };
const failed = await cache.get({ ...given, key: "failed", make: async (folder) => { lock(folder); throw new Error("as it failed"); } }).catch((error) => error.message);
await cache.get({ ...given, key: "made", make: async (folder) => lock(folder) });
await cache.collect(() => false, 0);
console.log(failed);`;

test(
  "folders that a build locked neither hide why it failed nor stay for ever",
  { skip: whyNot() },
  (t) => {
    const dir = temporaryFolder(t, "locked");
    chmodSync(dir, 0o777);
    const modules = ["drivers/process/build-cache.ts", "lib/clock.ts"].map((name) =>
      join(import.meta.dirname, "../src", name),
    );
    const node = [
      process.execPath,
      "--input-type=module",
      "-e",
      code,
      ...modules,
      join(dir, "cache"),
    ];
    assert.equal(
      execFileSync("env", [...asSomebody, ...node], { encoding: "utf8" }).trim(),
      "as it failed",
    );
    assert.deepEqual(readdirSync(join(dir, "cache")), []);
  },
);
