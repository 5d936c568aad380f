// The /etc of sandboxes can be copied at any time.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { temporaryFolder } from "#test/support/folder.ts";
import { until } from "#test/support/until.ts";
import { writeEtc } from "./etc-folder.ts";
import type { Namespaces } from "./sandbox.ts";

const copies = 'while read -r _; do cp -R "$1/." "$2" || exit 1; echo copied; done';

test("a copy that is made while the folder is written anew meets no file that goes away", async (t) => {
  const folder = temporaryFolder(t);
  const etc = join(folder, "etc");
  const to = join(folder, "copy");
  const sandbox = { etcFolders: [], network: { kind: "shared" } } as unknown as Namespaces;
  writeEtc(etc, sandbox, { isBuild: false });
  const child = spawn("sh", ["-c", copies, "sh", etc, to], { stdio: ["pipe", "pipe", "pipe"] });
  let copied = "";
  let failed = "";
  child.stdout.on("data", (chunk: Buffer) => (copied += chunk.toString()));
  child.stderr.on("data", (chunk: Buffer) => (failed += chunk.toString()));
  const ended = once(child, "exit");
  child.stdin.end("again\n".repeat(50));
  await until("it has copied fifty times", () => {
    for (let times = 0; times < 20; times++) writeEtc(etc, sandbox, { isBuild: false });
    return child.exitCode !== null;
  });
  assert.deepEqual(await ended, [0, null], failed);
  assert.equal(copied, "copied\n".repeat(50));
  const hosts = join(etc, "hosts");
  const { ino } = statSync(hosts);
  writeEtc(etc, sandbox, { isBuild: false });
  assert.equal(statSync(hosts).ino, ino, "the same is not written again");
  writeFileSync(hosts, "other\n");
  writeEtc(etc, sandbox, { isBuild: false });
  assert.match(readFileSync(hosts, "utf8"), /^127\.0\.0\.1 localhost/);
});
