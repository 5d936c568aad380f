// Runs guides as tests: blocks of commands marked `<!-- run -->`, each followed by the output that the guide shows. Bash runs
// the commands one after the other, and the output must match.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { randomInt } from "node:crypto";
import { promisify } from "node:util";
import { isFree } from "@slipway/cli/src/free-port.ts";

/** Commands and their output; `shown` is null where the guide shows none. */
export type GuideBlock = { readonly commands: string; readonly shown: string | null };

/** The deadline for a whole guide; generous, for a busy machine. */
const scriptMs = 180_000;
const mark = "=====";

/** All blocks of commands of a guide, in order. Fails if a block is not marked, since it would not be run. */
export function guideBlocks(text: string): GuideBlock[] {
  const form = /<!-- run -->\n```bash\n([\s\S]*?)```(?:\n\n```(?:json|text)\n([\s\S]*?)\n```)?/g;
  const blocks = [...text.matchAll(form)].map(([, commands = "", shown = null]) => ({ commands, shown }));
  assert.equal(blocks.length, text.match(/```bash/g)?.length, "every block of commands is run");
  return blocks;
}

/** Matches the output shown in a guide; "…" stands for anything within a line. */
export function shownForm(shown: string): RegExp {
  const parts = shown.split("…").map((part) => RegExp.escape(part));
  return new RegExp(`^${parts.join(".*?")}$`);
}

/** Runs all blocks in one shell and compares the output with the guide; returns the whole output. */
export async function runGuide(
  blocks: readonly GuideBlock[],
  { dataDir, cwd, env }: { readonly dataDir: string; readonly cwd?: string; readonly env?: NodeJS.ProcessEnv },
): Promise<string> {
  const script = blocks.map(({ commands }) => `${commands.replaceAll(".slipway/", `${dataDir}/`)}\necho '${mark}'`);
  // Everything that the script starts ends with it.
  const whole = ["trap 'kill $(jobs -p) 2>/dev/null || true' EXIT", ...script].join("\n");
  const { stdout } = await promisify(execFile)("bash", ["-eu", "-c", whole], { timeout: scriptMs, cwd, env });
  const answers = stdout.replaceAll("\r\n", "\n").split(`${mark}\n`);
  for (const [index, { commands, shown }] of blocks.entries()) {
    if (shown !== null) assert.match((answers[index] ?? "").trim(), shownForm(shown), commands);
  }
  return stdout;
}

/**
 * Unused ports for receivers of a guide, to replace the ports that the guide names. They are outside the range of ephemeral
 * ports and of replica ports; otherwise another test could take such a port before the guide uses it.
 */
export async function freePorts(count: number): Promise<string[]> {
  const ports = new Set<number>();
  while (ports.size < count) {
    const port = randomInt(10_000, 20_000);
    if (await isFree(port)) ports.add(port);
  }
  return [...ports].map(String);
}
