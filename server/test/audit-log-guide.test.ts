// The guide "The audit log", taken from the guide itself: its commands are run by bash against a real platform process,
// one after the other, and must answer what the guide shows.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { startPlatform } from "./support/platform-process.ts";

const guide = join(import.meta.dirname, "../../docs/guides/audit-log.md");
const scriptMs = 60_000;
const mark = "=====";

/** Matches what the guide shows; "…" stands for anything. */
function formOf(shown: string): RegExp {
  const parts = shown.split("…").map((part) => RegExp.escape(part));
  return new RegExp(`^${parts.join(".*?")}$`);
}

test("every command of the guide answers what the guide shows", async (t) => {
  const text = await readFile(guide, "utf8");
  const form = /<!-- run -->\n```bash\n([\s\S]*?)```(?:\n\n```(?:json|text)\n([\s\S]*?)\n```)?/g;
  const blocks = [...text.matchAll(form)].map(([, commands = "", shown = null]) => ({ commands, shown }));
  assert.equal(blocks.length, text.match(/```bash/g)?.length, "every block of commands is run");
  assert.equal(blocks.filter(({ shown }) => shown !== null).length, text.match(/```(json|text)/g)?.length);
  const platform = await startPlatform(t);
  const script = blocks.map(
    ({ commands }) => `${commands.replaceAll(".slipway/", `${platform.dataDir}/`)}\necho '${mark}'`,
  );
  const { stdout } = await promisify(execFile)("bash", ["-eu", "-c", script.join("\n")], { timeout: scriptMs });
  const answers = stdout.split(`${mark}\n`);
  for (const [index, { commands, shown }] of blocks.entries()) {
    if (shown !== null) assert.match((answers[index] ?? "").trim(), formOf(shown), commands);
  }
  assert.ok(!stdout.includes("swordfish"), "no secret in any entry");
  const pages = Number(/^(\d+) pages$/m.exec(stdout)?.[1]);
  assert.ok(pages >= 2 && pages < 50, `${pages} pages`);
});
