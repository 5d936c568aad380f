// Programs that prepare a replica's folder: how they end, and that they have ended.
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { temporaryFolder } from "#test/support/folder.ts";
import { until } from "#test/support/until.ts";
import { runToEnd } from "./run-to-end.ts";

test("an aborted program has ended when that is told, even one that takes its time", async (t) => {
  const file = join(temporaryFolder(t), "pid");
  const abort = new AbortController();
  const run = runToEnd("sh", ["-c", `trap '' TERM; echo $$ >'${file}'; while :; do :; done`], {
    signal: abort.signal,
  });
  const refused = assert.rejects(run);
  const pid = await until("it runs", () => existsSync(file) && readFileSync(file, "utf8").trim());
  abort.abort();
  await refused;
  assert.throws(() => process.kill(Number(pid), 0), /ESRCH/);
});

test("a program that fails says so, and nothing is begun for a start that is over", async () => {
  const { signal } = new AbortController();
  await runToEnd("true", [], { signal });
  await assert.rejects(runToEnd("false", [], { signal }), { code: 1 });
  await assert.rejects(runToEnd("no-such-program", [], { signal }), { code: "ENOENT" });
  await assert.rejects(runToEnd("true", [], { signal: AbortSignal.abort() }), {
    name: "AbortError",
  });
});
