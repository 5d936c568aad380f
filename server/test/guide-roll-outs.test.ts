// The guide to roll-outs, taken from the guide itself: its commands are run by bash against a real platform process and a
// real app, and must print what the guide shows.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { serveExamples } from "./support/examples.ts";
import { guideBlocks, runGuide } from "./support/guide.ts";
import { startPlatformOnTestServer } from "./support/platform-on-test-server.ts";

const guide = join(import.meta.dirname, "../../docs/guides/roll-outs.md");

test("every command of the guide to roll-outs prints what the guide shows", async (t) => {
  const blocks = guideBlocks(await readFile(guide, "utf8"));
  const platform = await startPlatformOnTestServer(t, { SLIPWAY_GIT_URL: await serveExamples(t) });
  await runGuide(blocks, platform);
});
