// The README's tour, taken from the README itself and run by bash against a real platform process: what a newcomer
// types must work, and answer as it is shown.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createServer, type AddressInfo } from "node:net";
import { join } from "node:path";
import { drawTests } from "./support/drawn-cases.ts";
import { serveExamples } from "./support/examples.ts";
import { startPlatform } from "./support/platform-process.ts";

const test = drawTests({ what: "ways of the tour", count: 3, max: 2 });

const readme = join(import.meta.dirname, "../../README.md");

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
    .replaceAll(/"(appUrl|dashboardUrl|logUrl|buildId)":"[^"]*"/g, '"$1":"…"')
    .replaceAll(/"run_time_ms": ?[0-9.e-]+/g, '"run_time_ms":N')
    .replaceAll(/[0-9.]+ s$/gm, "N s")
    .trim();
}

test("the README's tour works as it is written and answers as it shows", async (t) => {
  const platform = await startPlatform(t, { SLIPWAY_GIT_URL: await serveExamples(t) });
  const steps = await tourSteps();
  assert.ok(steps.length >= 7, `the README has ${steps.length} steps`);
  const mark = "=====step=====";
  const script = steps.map((step) => `${step.commands}\necho; echo ${mark}`).join("\n");
  const output = await runBash(script.replaceAll(".slipway/bootstrap.json", join(platform.dataDir, "bootstrap.json")));
  const answers = output.split(`${mark}\n`);
  for (const [index, step] of steps.entries()) {
    const answer = answers[index] ?? "";
    if (step.shown !== null) assert.equal(leveled(answer), leveled(step.shown), `step ${index + 1}:\n${step.commands}`);
  }
  assert.match(answers[2] ?? "", /App started successfully!/, "the build log ends with the start of the app");
  assert.match(answers.at(-2) ?? "", /greeting Ada/, "the app's output is shown");
});

test("the tour goes on when a build fails, and says why the app cannot be called", async (t) => {
  const platform = await startPlatform(t, { SLIPWAY_GIT_URL: await serveExamples(t) });
  const steps = await tourSteps();
  const [first = "", stream = ""] = [
    steps[0],
    steps.find(({ commands }) => commands.includes('"gitPath": "stream"')),
  ].map((step) => step?.commands);
  const script = `${first}\n${stream.replace('"gitPath": "stream"', '"gitPath": "no-such-folder"')}`;
  const output = await runBash(script.replaceAll(".slipway/bootstrap.json", join(platform.dataDir, "bootstrap.json")));
  assert.match(
    output,
    /"message":"stream has no release yet: its latest build is in state build_failure: .*no-such-folder/,
  );
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

function runBash(script: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn("bash", ["-euo", "pipefail"], { stdio: ["pipe", "pipe", "pipe"], timeout: 120_000 });
    let output = "";
    let errors = "";
    child.stdout.on("data", (chunk: Buffer) => (output += chunk.toString()));
    child.stderr.on("data", (chunk: Buffer) => (errors += chunk.toString()));
    child.on("error", reject);
    child.on("close", (code) => {
      if (code === 0) resolve(output);
      else reject(new Error(`the tour ended with ${code}\n${errors}\n${output}`));
    });
    child.stdin.end(script);
  });
}
