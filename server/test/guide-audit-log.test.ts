// The guide "The audit log", taken from the guide itself: its commands are run by bash against a real platform process,
// one after the other, and must answer what the guide shows.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { actionTable } from "@slipway/contract/words.ts";
import { temporaryFolder } from "./support/folder.ts";
import { freePorts, guideBlocks, runGuide } from "./support/guide.ts";
import { startPlatformOnTestServer } from "./support/platform-on-test-server.ts";
import type { PlatformProcess } from "./support/platform-process.ts";

const projectDir = join(import.meta.dirname, "../..");
const guide = join(projectDir, "docs/guides/audit-log.md");
const guidePort = "9001";

test("every command of the guide answers what the guide shows", async (t) => {
  const [port = ""] = await freePorts(1);
  const text = (await readFile(guide, "utf8")).replaceAll(guidePort, port);
  const platform = await startPlatformOnTestServer(t, { SLIPWAY_WEBHOOK_ALLOW: "127.0.0.1/32" });
  await knowAddresses(platform);
  const programs = [join(projectDir, "cli/bin"), join(projectDir, "node_modules/.bin"), process.env["PATH"]];
  const stdout = await runGuide(guideBlocks(text), {
    ...{ dataDir: platform.dataDir, cwd: temporaryFolder(t, "guide") },
    env: { ...process.env, PATH: programs.join(":") },
  });
  assert.ok(!stdout.includes("swordfish"), "no secret in any entry");
  const pages = Number(/^(\d+) pages$/m.exec(stdout)?.[1]);
  assert.ok(pages >= 2 && pages < 50, `${pages} pages`);
});

/**
 * The first use of a token from an address is an entry that is written some seconds later, at an end at the latest: it must not
 * come in between those that the guide shows.
 */
async function knowAddresses(platform: PlatformProcess): Promise<void> {
  assert.equal((await platform.call("no-app", "run")).status, 404);
  const log = `/v2/projects/${platform.bootstrap.projectId}/audit-log?action=token.new_address`;
  assert.equal((await platform.api("GET", log)).status, 200);
  await platform.end("SIGTERM");
  await platform.restart();
  assert.equal((await platform.api("GET", log)).body.logs.length, 2, "of the owner's token and of that for calls");
}

test("the guide lists every action, as the table of actions has it", async () => {
  const text = await readFile(guide, "utf8");
  const rows = Object.entries(actionTable).map(([action, about]) => `| \`${action}\` | ${about} |`);
  const listed = text.split("\n").filter((line) => /^\| `[a-z_]+\.[a-z_]+` \|/.test(line));
  assert.deepEqual(listed, rows, `the guide's list should be:\n${rows.join("\n")}`);
});
