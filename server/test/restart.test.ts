// What survives the end of the platform's process: replicas, builds, keys. Real processes, real
// signals.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { drawCases } from "./support/drawn-cases.ts";
import { deploy } from "./support/examples.ts";
import { temporaryFolder } from "./support/folder.ts";
import { startGitServer } from "./support/git-server.ts";
import { PlatformProcess } from "./support/platform-process.ts";
import { freePorts } from "./support/free-ports.ts";
import { until } from "./support/until.ts";

const pidApp = `import os

def run():
    return os.getpid()

def parent_start():
    with open("/proc/self/stat") as stat:
        return stat.read().rsplit(")", 1)[1].split()[19]
`;

type Fixture = {
  readonly platform: PlatformProcess;
  readonly git: Awaited<ReturnType<typeof startGitServer>>;
  /** The platform's, which is known before its first start. */
  readonly port: string;
};

async function firstStart({ platform, port }: Fixture): Promise<void> {
  const started = platform.restart();
  const file = join(platform.dataDir, "bootstrap.json");
  const isWell = (): Promise<boolean> =>
    fetch(`http://127.0.0.1:${port}/healthz`).then(
      ({ status }) => status === 200,
      () => false,
    );
  await until("it is well", isWell, { deadlineMs: 60_000 });
  assert.ok(existsSync(file));
  await started;
}

async function secondOnFolder({ platform }: Fixture): Promise<void> {
  const second = spawn(process.execPath, [join(import.meta.dirname, "../src/main.ts")], {
    env: {
      PATH: process.env["PATH"],
      SLIPWAY_DATA_DIR: platform.dataDir,
      SLIPWAY_PORT: "0",
      SLIPWAY_DRIVER: "process",
    },
    stdio: ["ignore", "ignore", "pipe"],
  });
  let errors = "";
  second.stderr.on("data", (chunk: Buffer) => (errors += chunk.toString()));
  const code = await new Promise((resolve) => second.on("close", resolve));
  assert.equal(code, 1);
  assert.match(errors, new RegExp(`\\b${platform.pid()}\\b`));
  assert.equal(
    (await fetch(`${platform.bootstrap.baseUrl}/healthz`)).status,
    200,
    "the first one still serves",
  );
}

async function brokenApp({ platform, git }: Fixture): Promise<void> {
  await git.createRepo("acme", "broken", {
    "main.py": "import no_such_module_here\n\ndef run():\n    return 1\n",
  });
  const app = await deploy(platform, {
    name: "broken",
    gitRepo: "acme/broken",
    pythonVersion: "3.11",
  });
  assert.equal(app.status, "init_failure");
  assert.match(app.log, /ModuleNotFoundError: No module named 'no_such_module_here'/);
  assert.match(app.log, /File ".*main\.py", line 1/);
  const answer = await platform.call("broken", "run");
  assert.equal(answer.status, 503);
  assert.match(((await answer.json()) as { message: string }).message, /build/);
}

async function restarts({ platform, git }: Fixture): Promise<void> {
  await git.createRepo("acme", "pid", {
    "main.py": pidApp,
    "slipway.toml": '[cerebrium.deployment]\nname = "pid"\n',
  });
  const app = await deploy(platform, {
    name: "pid-app",
    gitRepo: "acme/pid",
    cooldownPeriodSeconds: 600,
    pythonVersion: "3.11",
  });
  assert.equal(app.status, "success", app.log);
  const startedAt = async (): Promise<unknown> =>
    ((await (await platform.call("pid-app", "parent_start")).json()) as { result: unknown }).result;
  const first = await startedAt();

  assert.equal(await platform.end("SIGTERM"), 0, platform.output());
  await platform.restart();
  assert.equal(await startedAt(), first, "the replica of before the restart answers");

  await platform.end("SIGKILL");
  await platform.restart();
  assert.equal(await startedAt(), first, "the replica of before the kill answers");
}

async function cutOffBuild({ platform, git }: Fixture): Promise<void> {
  const toml = `[cerebrium.deployment]\nname = "slow"\npython_version = "3.11"\nshell_commands = ["sleep 3"]\n`;
  await git.createRepo("acme", "slow", {
    "main.py": "def run():\n    return 1\n",
    "slipway.toml": toml,
  });
  const { projectId } = platform.bootstrap;
  const created = await platform.api("POST", `/v2/projects/${projectId}/apps/git`, {
    name: "slow",
    gitRepo: "acme/slow",
  });
  assert.equal(created.status, 201, JSON.stringify(created.body));
  const path = `/v2/projects/${projectId}/apps/${created.body.appId}/builds/${created.body.buildId}`;
  const statusOf = async (): Promise<string> =>
    String((await platform.api("GET", path)).body.status);
  await until("the build is under way", async () => (await statusOf()) === "building", {
    deadlineMs: 60_000,
  });
  await platform.end("SIGKILL");
  await platform.restart();
  await until("the build succeeds", async () => (await statusOf()) === "success", {
    deadlineMs: 90_000,
  });
  const answer = await platform.call("slow", "run");
  assert.equal(((await answer.json()) as { result: unknown }).result, 1);
}

test("a platform on a data folder, from its first start on", async (t) => {
  const git = await startGitServer(t);
  const [port = ""] = await freePorts(1);
  const settings = { SLIPWAY_PORT: port, SLIPWAY_GIT_URL: git.urlTemplate };
  const platform = new PlatformProcess(temporaryFolder(t, "first-start"), settings);
  t.after(() => platform.remove());
  const ground = { platform, git, port };
  await t.test("the first start says that it is well only once bootstrap.json is there", () =>
    firstStart(ground),
  );
  await t.test(
    "a second platform on the same data folder is refused and names the first one's process",
    () => secondOnFolder(ground),
  );
  await t.test("an app that cannot start ends its build with the app's own traceback", () =>
    brokenApp(ground),
  );
  const kills: readonly [string, (fixture: Fixture) => Promise<void>][] = [
    ["a restart keeps replicas running, and a stop ends with code 0", restarts],
    ["a build that a kill cut off is taken up again and succeeds", cutOffBuild],
  ];
  for (const [promise, run] of drawCases(kills, { what: "restarts", max: 1 }))
    await t.test(promise, () => run(ground));
});

test("an unknown setting is refused with the nearest name", async () => {
  const child = spawn(process.execPath, [join(import.meta.dirname, "../src/main.ts")], {
    env: { PATH: process.env["PATH"], SLIPWAY_PROT: "7070" },
    stdio: ["ignore", "ignore", "pipe"],
  });
  let errors = "";
  child.stderr.on("data", (chunk: Buffer) => (errors += chunk.toString()));
  const code = await new Promise((resolve) => child.on("close", resolve));
  assert.equal(code, 1);
  assert.match(errors, /SLIPWAY_PROT is not a setting; did you mean SLIPWAY_PORT\?/);
});
