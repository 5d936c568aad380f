// The guide "Billing and coupons", taken from the guide itself: its commands are run by bash against a real platform
// process, one after the other, and must answer what the guide shows. The platform has the files of prices and plans that
// stand there too.
import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { temporaryFolder } from "./support/folder.ts";
import { guideBlocks, runGuide } from "./support/guide.ts";
import { startPlatformOnTestServer } from "./support/platform-on-test-server.ts";

const guide = join(import.meta.dirname, "../../docs/guides/billing-and-coupons.md");

/** Writes the files that the guide shows; returns the settings that name them. */
async function settingsOf(t: TestContext, text: string): Promise<Record<string, string>> {
  const folder = temporaryFolder(t, "guide");
  const files = [...text.matchAll(/<!-- file: (\w+)\.toml -->\n```toml\n([\s\S]*?)```/g)];
  assert.equal(files.length, text.match(/```toml/g)?.length, "every file is used");
  const settings = files.map(async ([, name = "", content = ""]) => {
    const file = join(folder, `${name}.toml`);
    await writeFile(file, content);
    return [`SLIPWAY_${name.toUpperCase()}_FILE`, file] as const;
  });
  return Object.fromEntries(await Promise.all(settings));
}

test("every command of the guide answers what the guide shows", async (t) => {
  const text = await readFile(guide, "utf8");
  const blocks = guideBlocks(text);
  assert.equal(blocks.filter(({ shown }) => shown !== null).length, text.match(/```json/g)?.length);
  const platform = await startPlatformOnTestServer(t, await settingsOf(t, text));
  await runGuide(blocks, platform);
});
