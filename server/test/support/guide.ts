// Guides as tests read them: blocks of commands that are marked `<!-- run -->`, each with what the guide shows below it.
// The commands are run by bash, one after the other, and must print that.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { randomInt } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:net";
import { promisify } from "node:util";

/** Commands and what they print; `shown` is null where the guide shows nothing. */
export type GuideBlock = { readonly commands: string; readonly shown: string | null };

/** Of a guide from its first command to its last: more than a machine takes that does much else. */
const scriptMs = 180_000;
const mark = "=====";

/** All blocks of commands of a guide, in their order. Fails where one of them is not marked, and so would not be run. */
export function guideBlocks(text: string): GuideBlock[] {
  const form = /<!-- run -->\n```bash\n([\s\S]*?)```(?:\n\n```(?:json|text)\n([\s\S]*?)\n```)?/g;
  const blocks = [...text.matchAll(form)].map(([, commands = "", shown = null]) => ({ commands, shown }));
  assert.equal(blocks.length, text.match(/```bash/g)?.length, "every block of commands is run");
  return blocks;
}

/** Matches what a guide shows; "…" stands for anything within a line. */
export function shownForm(shown: string): RegExp {
  const parts = shown.split("…").map((part) => RegExp.escape(part));
  return new RegExp(`^${parts.join(".*?")}$`);
}

/** Runs all blocks in one shell and holds what they print to what is shown; returns all that was printed. */
export async function runGuide(
  blocks: readonly GuideBlock[],
  { dataDir, cwd, env }: { readonly dataDir: string; readonly cwd?: string; readonly env?: NodeJS.ProcessEnv },
): Promise<string> {
  const script = blocks.map(({ commands }) => `${commands.replaceAll(".slipway/", `${dataDir}/`)}\necho '${mark}'`);
  // Whatever the script starts ends with it.
  const whole = ["trap 'kill $(jobs -p) 2>/dev/null || true' EXIT", ...script].join("\n");
  const { stdout } = await promisify(execFile)("bash", ["-eu", "-c", whole], { timeout: scriptMs, cwd, env });
  const answers = stdout.replaceAll("\r\n", "\n").split(`${mark}\n`);
  for (const [index, { commands, shown }] of blocks.entries()) {
    if (shown !== null) assert.match((answers[index] ?? "").trim(), shownForm(shown), commands);
  }
  return stdout;
}

/**
 * So many ports that nobody listens on, for receivers of a guide in place of those that it names. They are none of those that
 * the system gives to whoever leaves the choice to it, and none of replicas: such a one would be another test's before the guide
 * comes to it.
 */
export async function freePorts(count: number): Promise<string[]> {
  const ports = new Set<number>();
  while (ports.size < count) {
    const port = randomInt(10_000, 20_000);
    if (await isFree(port)) ports.add(port);
  }
  return [...ports].map(String);
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer().listen(port, "127.0.0.1");
  try {
    await once(server, "listening");
  } catch {
    return false;
  }
  server.close();
  await once(server, "close");
  return true;
}
