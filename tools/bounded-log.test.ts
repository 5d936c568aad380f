// The log file of a platform in the background, against its bound.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { temporaryFolder } from "@slipway/server/test/support/folder.ts";
import { until } from "@slipway/server/test/support/until.ts";

test("a log that has become too large is kept once beside the file, which begins anew", async (t) => {
  const file = join(temporaryFolder(t, "log"), "platform.log");
  const module = pathToFileURL(join(import.meta.dirname, "bounded-log.mjs"));
  module.search = new URLSearchParams({ file, bytes: "10000", everyMs: "1" }).toString();
  const log = openSync(file, "ax");
  const program =
    'let line = 0; setInterval(() => console.error(`line ${line++} ${"x".repeat(100)}`), 1)';
  const child = spawn(process.execPath, ["--import", module.href, "-e", program], {
    stdio: ["ignore", log, log],
  });
  closeSync(log);
  const ended = once(child, "close");
  t.after(async () => {
    child.kill("SIGKILL");
    await ended;
  });
  const beside = await until("it has begun anew twice", () => {
    const text =
      statSync(`${file}.1`, { throwIfNoEntry: false }) === undefined
        ? ""
        : readFileSync(`${file}.1`, "utf8");
    return text.length > 0 && !text.startsWith("line 0 ") ? text : null;
  });
  assert.match(beside, /^line \d+ x+\n/);
  assert.ok(beside.length < 100_000, String(beside.length));
  assert.ok(statSync(file).size < 100_000);
});
