// The guide "Compute", taken from the guide itself: its pools file is what the platform starts with, and its commands are run by
// bash against a real platform process and real apps, and must print what the guide shows.
import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { serveExamples } from "./support/examples.ts";
import { temporaryFolder } from "./support/folder.ts";
import { guideBlocks, runGuide } from "./support/guide.ts";
import { startPlatformOnTestServer } from "./support/platform-on-test-server.ts";

const guide = join(import.meta.dirname, "../../docs/guides/compute.md");

test("every command of the guide prints what the guide shows", async (t) => {
  const text = await readFile(guide, "utf8");
  const [, pools] = /```toml\n([\s\S]*?)```/.exec(text) ?? [];
  assert.ok(pools);
  const poolsFile = join(temporaryFolder(t), "pools.toml");
  await writeFile(poolsFile, pools);
  const settings = { SLIPWAY_POOLS_FILE: poolsFile, SLIPWAY_SIMULATE_COMPUTE: "true" };
  const platform = await startPlatformOnTestServer(t, { ...settings, SLIPWAY_GIT_URL: await serveExamples(t) });
  await runGuide(guideBlocks(text), platform);
});
