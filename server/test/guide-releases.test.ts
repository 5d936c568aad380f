// The guide "Releases and rollbacks", taken from the guide itself: its commands are run by bash against a real platform process, with a
// real repository, and must print what the guide shows.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { releaseStates } from "@slipway/contract/words.ts";
import { temporaryFolder } from "./support/folder.ts";
import { guideBlocks, runGuide } from "./support/guide.ts";
import { startPlatformOnTestServer } from "./support/platform-on-test-server.ts";

const guide = join(import.meta.dirname, "../../docs/guides/releases.md");

test("every command of the guide prints what the guide shows", async (t) => {
  const text = await readFile(guide, "utf8");
  const blocks = guideBlocks(text);
  const cwd = temporaryFolder(t, "guide");
  const [, own = ""] = /SLIPWAY_GIT_URL="(\S+)" npm start/.exec(text) ?? [];
  const platform = await startPlatformOnTestServer(t, { SLIPWAY_GIT_URL: own.replace("$PWD", cwd) });
  await runGuide(blocks, { dataDir: platform.dataDir, cwd });
});

test("the guide names the states that a release can have", async () => {
  const text = await readFile(guide, "utf8");
  for (const state of releaseStates) assert.ok(text.includes(`| \`${state}\` | `), state);
});
