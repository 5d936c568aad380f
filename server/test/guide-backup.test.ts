// The guide "Backup and restore", taken from the guide itself: its commands are run by bash on the
// data of a running platform, and what they restore is started and has everything, secrets
// included.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { promisify } from "node:util";
import { drawTests } from "./support/drawn-cases.ts";
import { emptyDatabase } from "./support/database.ts";
import { temporaryFolder } from "./support/folder.ts";
import { deploy } from "./support/examples.ts";
import { startGitServer } from "./support/git-server.ts";
import { PlatformProcess, startPlatform } from "./support/platform-process.ts";
import { until } from "./support/until.ts";

const test = drawTests({ what: "ways to back up", count: 2, max: 1 });

const guide = join(import.meta.dirname, "../../docs/guides/backup-and-restore.md");
const main = join(import.meta.dirname, "../../cli/src/main.ts");
const stepMs = 120_000;
const source = `import os

def run():
    return os.environ.get("WORD")
`;

/** The blocks of commands, in their order. */
async function commandsOf(): Promise<readonly string[]> {
  const text = await readFile(guide, "utf8");
  const blocks = [...text.matchAll(/<!-- run -->\n```bash\n([\s\S]*?)```/g)];
  assert.equal(blocks.length, text.match(/```bash/g)?.length, "all are run");
  return blocks.map(([, commands = ""]) => commands);
}

type Shell = { readonly cwd: string; readonly env: Record<string, string> };

/** Runs the blocks in one shell, in which `slipway` is the command line of this project. */
async function run(blocks: readonly string[], { cwd, env }: Shell): Promise<void> {
  const script = `slipway() { "${process.execPath}" "${main}" "$@"; }\n${blocks.join("\n")}`;
  await promisify(execFile)("bash", ["-eu", "-c", script], {
    cwd,
    timeout: stepMs,
    env: { PATH: process.env["PATH"], HOME: cwd, ...env },
  });
}

/** A platform with an app that tells a secret, a token, and a run that has ended. */
async function openFilled(t: TestContext, settings: Record<string, string> = {}) {
  const git = await startGitServer(t);
  await git.createRepo("acme", "teller", { "main.py": source });
  const own = { SLIPWAY_GIT_URL: git.urlTemplate, ...settings };
  const platform = await startPlatform(t, own);
  const project = `/v2/projects/${platform.bootstrap.projectId}`;
  assert.equal((await platform.api("PATCH", `${project}/secrets`, { WORD: "kept" })).status, 200);
  const app = await deploy(platform, {
    name: "teller",
    gitRepo: "acme/teller",
    pythonVersion: "3.11",
  });
  assert.equal(app.status, "success", app.log);
  const accepted = await platform.call("teller", "run?async=true", {});
  const { run_id: runId } = (await accepted.json()) as { run_id: string };
  const path = `${project}/apps/${app.appId}`;
  const state = async (of: PlatformProcess): Promise<string> =>
    (await of.api("GET", `${path}/runs/${runId}`)).body.item.status;
  await until("the run ends", async () => (await state(platform)) === "success");

  /**
   * The restored platform has all of it: the app in the same words, the run, both tokens, and the
   * secret in the app.
   */
  const isAllThere = async (restored: PlatformProcess): Promise<void> => {
    assert.equal((await fetch(`${restored.bootstrap.baseUrl}/readyz`)).status, 200);
    assert.equal((await restored.api("GET", path)).body.name, "teller");
    assert.equal(await state(restored), "success");
    // What was built holds the paths of the folder that it was built in.
    const rebuilt = await restored.api("POST", `${path}/builds/${app.buildId}/rebuild`);
    assert.equal(rebuilt.status, 201, JSON.stringify(rebuilt.body));
    const build = `${path}/builds/${rebuilt.body.buildId}`;
    const isBuilt = async (): Promise<boolean> =>
      (await restored.api("GET", build)).body.status === "success";
    await until("it is built again", isBuilt, { deadlineMs: stepMs });
    const answer = await restored.call("teller", "run", {});
    assert.equal(((await answer.json()) as { result: string }).result, "kept");
  };
  return { platform, settings: own, isAllThere };
}

function restoredPlatform(
  t: TestContext,
  cwd: string,
  settings: Record<string, string>,
): PlatformProcess {
  const restored = new PlatformProcess(join(cwd, "restored"), settings);
  t.after(() => restored.remove());
  return restored;
}

test("a platform is backed up by the guide's commands while it runs, and restored elsewhere", async (t) => {
  const cwd = temporaryFolder(t, "backup");
  const { platform, settings, isAllThere } = await openFilled(t);
  const commands = await commandsOf();
  await run(commands, { cwd, env: { SLIPWAY_DATA_DIR: platform.dataDir } });
  assert.equal((await platform.call("teller", "run", {})).status, 200, "it goes on");
  await platform.end("SIGTERM");
  const restored = restoredPlatform(t, cwd, settings);
  await restored.restart();
  await isAllThere(restored);
});

test("so is one with a database of one's own", async (t) => {
  const cwd = temporaryFolder(t, "backup-own");
  const from = await emptyDatabase(t);
  const to = await emptyDatabase(t);
  const { platform, settings, isAllThere } = await openFilled(t, {
    SLIPWAY_DATABASE_URL: from.reveal(),
  });
  const [restore = "", ...earlier] = (await commandsOf()).toReversed();
  const env = { SLIPWAY_DATA_DIR: platform.dataDir, SLIPWAY_DATABASE_URL: from.reveal() };
  await run(earlier.toReversed(), { cwd, env });
  await platform.end("SIGTERM");
  await run([restore], { cwd, env: { ...env, SLIPWAY_DATABASE_URL: to.reveal() } });
  const restored = restoredPlatform(t, cwd, {
    ...settings,
    SLIPWAY_DATABASE_URL: to.reveal(),
  });
  await restored.restart();
  await isAllThere(restored);
});
