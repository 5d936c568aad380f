// The guide "Scaling", taken from the guide itself: its commands are run by bash against a real platform process and a real app,
// and must print what the guide shows.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { serveExamples } from "./support/examples.ts";
import { guideBlocks, runGuide } from "./support/guide.ts";
import { startPlatformOnTestServer } from "./support/platform-on-test-server.ts";

const projectDir = join(import.meta.dirname, "../..");
const guide = join(projectDir, "docs/guides/scaling.md");

test("every command of the guide prints what the guide shows", async (t) => {
  const text = await readFile(guide, "utf8");
  const platform = await startPlatformOnTestServer(t, { SLIPWAY_GIT_URL: await serveExamples(t) });
  await runGuide(guideBlocks(text), platform);
  // It plays for minutes; its own test plays a part.
  const [, command = ""] = /<!-- simulation -->\n```sh\n(.*)\n```/.exec(text) ?? [];
  assert.ok(existsSync(join(projectDir, command.split(" ").at(-1) ?? "")), command);
});
