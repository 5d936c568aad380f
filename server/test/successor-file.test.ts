// The file by which `slipway restart` asks for a successor may hold secrets: it never stays.
import assert from "node:assert/strict";
import { once } from "node:events";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { test } from "node:test";
import { silentLog } from "#lib/log.ts";
import { handOver } from "#successor.ts";
import { temporaryFolder } from "./support/folder.ts";
import { until } from "./support/until.ts";

test("the file for a successor is gone after the start, a request, a second one and a bad one", async (t) => {
  const folder = temporaryFolder(t, "successor");
  const file = join(folder, "successor.json");
  const logFile = join(folder, "log");
  const server = createServer();
  await once(server.listen(0, "127.0.0.1"), "listening");
  t.after(() => server.close());
  writeFileSync(file, "of before");
  void handOver({ file, server, log: silentLog });
  assert.equal(existsSync(file), false);
  // A test run has other listeners to this signal, which write a report.
  const onSignal = process.listeners("SIGUSR2").at(-1) ?? assert.fail("nobody listens");
  t.after(() => process.off("SIGUSR2", onSignal));
  const ask = (text: string): void => {
    writeFileSync(file, text);
    onSignal("SIGUSR2");
    assert.equal(existsSync(file), false);
  };
  ask("no JSON");
  const program = [process.execPath, "-e", "setInterval(() => undefined, 60000)"];
  const request = JSON.stringify({ program, cwd: folder, environment: {}, logFile });
  ask(request);
  const pids = (): string[] => readFileSync(logFile, "utf8").match(/(?<=successor )\d+/g) ?? [];
  const [pid = ""] = pids();
  assert.match(pid, /^\d+$/);
  ask(request);
  assert.equal(pids().length, 1, "there is one successor at a time");
  process.kill(Number(pid));
  await until("the successor has ended", () => !existsSync(`/proc/${pid}`));
});
