// The guide "Backup and restore", taken from the guide itself: its commands are run by bash on the
// data of a running platform, and what they restore is started and has everything, secrets
// included.
import assert from "node:assert/strict";
import { execFile, execFileSync, spawn } from "node:child_process";
import { chownSync, mkdirSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { promisify } from "node:util";
import { drawTests } from "./support/drawn-cases.ts";
import { temporaryFolder } from "./support/folder.ts";
import { deploy } from "./support/examples.ts";
import { startGitServer } from "./support/git-server.ts";
import { PlatformProcess, startPlatform } from "./support/platform-process.ts";
import { until } from "./support/until.ts";

const test = drawTests({ what: "ways to back up", count: 2, max: 1 });

const guide = join(import.meta.dirname, "../../docs/guides/backup-and-restore.md");
const stepMs = 120_000;
const source = `import os

def run():
    return os.environ.get("WORD")
`;

/** The blocks of commands with a mark, in their order. */
async function commandsOf(mark: string): Promise<readonly string[]> {
  const text = await readFile(guide, "utf8");
  assert.equal(
    text.match(/<!-- (?:run|own) -->\n```bash/g)?.length,
    text.match(/```bash/g)?.length,
    "all are run",
  );
  const blocks = text.matchAll(new RegExp(`<!-- ${mark} -->\n\`\`\`bash\n([\\s\\S]*?)\`\`\``, "g"));
  return Array.from(blocks, ([, commands = ""]) => commands);
}

type Shell = {
  readonly dataDir: string;
  readonly cwd: string;
  readonly env?: Record<string, string>;
};

async function run(commands: string, { dataDir, cwd, env }: Shell): Promise<void> {
  const script = commands.replaceAll(".slipway/", `${dataDir}/`);
  await promisify(execFile)("bash", ["-eu", "-c", script], {
    cwd,
    timeout: stepMs,
    env: { ...process.env, ...env },
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

test("a data folder with its database is copied while the platform stands, and restored elsewhere", async (t) => {
  const cwd = temporaryFolder(t, "backup");
  const { platform, settings, isAllThere } = await openFilled(t);
  const [backup = "", restore = ""] = await commandsOf("run");
  const shell = { dataDir: platform.dataDir, cwd };
  await run(backup, shell);
  assert.ok(platform.hasEnded(), "the commands have stopped it");
  await run(restore, shell);
  const restored = restoredPlatform(t, cwd, settings);
  await restored.restart();
  await isAllThere(restored);
});

const binaries = binariesOf();
const noPostgres =
  binaries === null ? "PostgreSQL with its client programs is not installed here" : false;

function binariesOf(): string | null {
  try {
    return execFileSync("pg_config", ["--bindir"], { encoding: "utf8", timeout: 10_000 }).trim();
  } catch {
    return null;
  }
}

/**
 * A PostgreSQL of the machine's own version, as the client programs need it; returns the URL of a
 * database on it.
 */
async function startServer(t: TestContext): Promise<(database: string) => string> {
  const folder = temporaryFolder(t, "own-database");
  const dataFolder = join(folder, "data");
  const nobody = 65_534;
  const isRoot = process.getuid?.() === 0;
  mkdirSync(dataFolder, { mode: 0o700 });
  if (isRoot) for (const one of [folder, dataFolder]) chownSync(one, nobody, nobody);
  const as = { cwd: folder, ...(isRoot ? { uid: nobody, gid: nobody } : {}) };
  const at = (program: string): string => join(binaries ?? "", program);
  const setUp = ["-D", dataFolder, "-U", "slipway", "--auth=trust", "--no-sync"];
  await promisify(execFile)(at("initdb"), setUp, { ...as, timeout: stepMs });
  const settings = ["-c", "listen_addresses=", "-c", "fsync=off", "-k", folder];
  const server = spawn(at("postgres"), ["-D", dataFolder, ...settings], { ...as, stdio: "ignore" });
  t.after(async () => {
    server.kill("SIGINT");
    await until("the server ends", () => server.exitCode !== null || server.signalCode !== null);
  });
  const url = (database: string): string =>
    `postgres://slipway@localhost/${database}?host=${encodeURIComponent(folder)}`;
  const ask = (statement: string): Promise<boolean> =>
    promisify(execFile)(at("psql"), [url("postgres"), "-c", statement], { timeout: stepMs }).then(
      () => true,
      () => false,
    );
  await until("the server answers", () => ask("select 1"), { deadlineMs: stepMs });
  for (const name of ["slipway", "restored"]) assert.ok(await ask(`create database ${name}`), name);
  return url;
}

test(
  "a database of one's own is dumped while the platform runs, and restored",
  { skip: noPostgres },
  async (t) => {
    const cwd = temporaryFolder(t, "backup-own");
    const url = await startServer(t);
    const { platform, settings, isAllThere } = await openFilled(t, {
      SLIPWAY_DATABASE_URL: url("slipway"),
    });
    const [backup = "", restore = ""] = await commandsOf("own");
    const urls = { SLIPWAY_DATABASE_URL: url("slipway"), RESTORED_DATABASE_URL: url("restored") };
    const shell = { dataDir: platform.dataDir, cwd, env: urls };
    await run(backup, shell);
    assert.equal((await platform.call("teller", "run", {})).status, 200, "it goes on");
    await run(restore, shell);
    await platform.end("SIGTERM");
    const restored = restoredPlatform(t, cwd, {
      ...settings,
      SLIPWAY_DATABASE_URL: url("restored"),
    });
    await restored.restart();
    await isAllThere(restored);
  },
);
