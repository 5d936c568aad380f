// The guide "Persistent storage": its commands are run by bash against a real platform process, and must print what it shows.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import "#test/support/leftovers.ts";
import { guideBlocks, runGuide } from "./support/guide.ts";
import { startPlatformOnTestServer } from "./support/platform-on-test-server.ts";

const guide = join(import.meta.dirname, "../../docs/guides/storage.md");

test("every command of the guide prints what the guide shows", async (t) => {
  const blocks = guideBlocks(await readFile(guide, "utf8"));
  await runGuide(blocks, await startPlatformOnTestServer(t));
});
