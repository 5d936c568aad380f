// The README's tour, taken from the README itself and run by bash in a home folder of its own: what a newcomer types must work, and
// print what is shown. `slipway up` starts a real platform.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readdirSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createServer, type AddressInfo } from "node:net";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { drawTests } from "./support/drawn-cases.ts";
import { temporaryFolder } from "./support/folder.ts";
import { freePorts, shownForm } from "./support/guide.ts";
import { commandsAt } from "./support/slipway-command.ts";

const test = drawTests({ what: "ways of the tour", count: 2, max: 1 });

const projectDir = join(import.meta.dirname, "../..");
const readme = join(projectDir, "README.md");
const commandLine = join(projectDir, "cli/bin/slipway");
/** For the whole tour, on a busy machine. */
const tourMs = 180_000;

type Step = { readonly commands: string; readonly shown: string | null };

/** The code blocks behind `<!-- tour -->`, each with the answer shown below it. */
async function tourSteps(): Promise<Step[]> {
  const text = await readFile(readme, "utf8");
  const form = /<!-- tour -->\n```bash\n([\s\S]*?)```(?:\n\n```(?:json|text)\n([\s\S]*?)```)?/g;
  return [...text.matchAll(form)].map((match) => ({ commands: match[1] ?? "", shown: match[2] ?? null }));
}

/** What differs from run to run, replaced by a mark. */
function leveled(answer: string): string {
  return answer
    .replaceAll(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, "ID")
    .replaceAll(/p-[0-9a-f]{8}/g, "PROJECT")
    .replaceAll(/"[0-9a-f]{8}-…"/g, '"ID"')
    .replaceAll(/http:\/\/127\.0\.0\.1:\d+/g, "URL")
    .replaceAll(/"run_time_ms": ?[0-9.e-]+/g, '"run_time_ms":N')
    .replaceAll(/\b[0-9.]+ (s|ms|kB)\b/g, "N $1")
    .trim();
}

/** A line of the README that is only "…" stands for any number of lines. */
function shownLines(shown: string): RegExp {
  const parts = leveled(shown).split(/^…$/m);
  return new RegExp(
    parts
      .map((part) => shownForm(part).source.slice(1, -1))
      .join("[^]*?")
      .replace(/^/, "^") + "$",
  );
}

function home(t: TestContext): {
  readonly folder: string;
  readonly dataDir: string;
  readonly env: Record<string, string>;
} {
  const folder = temporaryFolder(t, "home");
  const dataDir = temporaryFolder(t, "data");
  const path = `${join(projectDir, "cli/bin")}:${process.env["PATH"]}`;
  const env = { PATH: path, HOME: folder, SLIPWAY_DATA_DIR: dataDir, SLIPWAY_DRIVER: "process" };
  t.after(() => commandsAt(t, { env })(["down"], { program: [commandLine] }).ended);
  return { folder, dataDir, env };
}

test("the README's tour works as it is written, prints what it shows, and leaves nothing in the checkout", async (t) => {
  const { folder, dataDir, env } = home(t);
  const [port = ""] = await freePorts(1);
  const steps = await tourSteps();
  assert.ok(steps.length >= 8, `the README has ${steps.length} steps`);
  const before = readdirSync(projectDir);
  const mark = "=====step=====";
  const script = ["exec 2>&1", ...steps.map((step) => `${step.commands}\necho; echo ${mark}`)].join("\n");
  const located = script.replaceAll("~/slipway/.slipway", dataDir);
  const output = await runBash(located, { ...env, SLIPWAY_PORT: port }, folder);
  const placed = output.replaceAll(dataDir, "/home/ada/slipway/.slipway").replaceAll(folder, "/home/ada");
  const answers = placed.split(`${mark}\n`);
  for (const [index, step] of steps.entries()) {
    const answer = leveled(answers[index] ?? "");
    if (step.shown !== null) assert.match(answer, shownLines(step.shown), `step ${index + 1}:\n${step.commands}`);
  }
  assert.match(answers.at(-3) ?? "", /greeting Ada[^]*\/dashboard\/projects\/p-\w+\/apps\/p-\w+-hello/);
  assert.match(answers.at(-2) ?? "", /^The platform \(process \d+\) has stopped\.\n1 replica ended/);
  assert.deepEqual(readdirSync(projectDir), before);
});

test("the examples' port, when it is taken, is named in a sentence with how to choose another one", async (t) => {
  const taken = createServer().listen(0, "127.0.0.1");
  t.after(() => taken.close());
  await once(taken, "listening");
  const { port } = taken.address() as AddressInfo;
  const examples = join(import.meta.dirname, "../../tools/examples.ts");
  const run = spawnSync(process.execPath, [examples, String(port)], { encoding: "utf8", timeout: 60_000 });
  assert.equal(
    run.stderr,
    `Another program has port ${port}. Choose a free port, for example: npm run examples -- 7081\n`,
  );
  assert.equal(run.status, 1);
});

function runBash(script: string, env: Record<string, string>, cwd: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn("bash", ["-euo", "pipefail"], { env, cwd, stdio: ["pipe", "pipe", "pipe"], timeout: tourMs });
    let output = "";
    for (const stream of [child.stdout, child.stderr])
      stream.on("data", (chunk: Buffer) => (output += chunk.toString()));
    child.on("error", reject);
    child.on("close", (code) => {
      if (code === 0) resolve(output);
      else reject(new Error(`the tour ended with ${code}\n${output}`));
    });
    child.stdin.end(script);
  });
}
