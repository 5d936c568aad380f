// The guide "Billing and coupons", taken from the guide itself: its commands are run by bash against a real platform
// process, one after the other, and must answer what the guide shows. The platform has the files of prices and plans that
// stand there too.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { promisify } from "node:util";
import { temporaryFolder } from "./support/folder.ts";
import { startPlatform } from "./support/platform-process.ts";

const guide = join(import.meta.dirname, "../../docs/guides/billing-and-coupons.md");
const scriptMs = 60_000;
const mark = "=====";

/** Matches what the guide shows; "…" stands for anything. */
function formOf(shown: string): RegExp {
  const parts = shown.split("…").map((part) => RegExp.escape(part));
  return new RegExp(`^${parts.join(".*?")}$`);
}

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
  const form = /<!-- run -->\n```bash\n([\s\S]*?)```(?:\n\n```json\n([\s\S]*?)\n```)?/g;
  const blocks = [...text.matchAll(form)].map(([, commands = "", shown = ""]) => ({ commands, shown }));
  assert.ok(blocks.length > 5);
  assert.equal(blocks.length, text.match(/```bash/g)?.length, "every block of commands is run");
  assert.equal(blocks.filter(({ shown }) => shown !== "").length, text.match(/```json/g)?.length);
  const platform = await startPlatform(t, await settingsOf(t, text));
  const script = blocks.map(
    ({ commands }) => `${commands.replaceAll(".slipway/", `${platform.dataDir}/`)}\necho '${mark}'`,
  );
  const { stdout } = await promisify(execFile)("bash", ["-eu", "-c", script.join("\n")], { timeout: scriptMs });
  const answers = stdout.split(`${mark}\n`);
  for (const [index, { commands, shown }] of blocks.entries()) {
    assert.match((answers[index] ?? "").trim(), formOf(shown), commands);
  }
});
