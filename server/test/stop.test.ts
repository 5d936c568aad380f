// How the platform ends: what callers see while it does, what it says about replicas, and `npm run
// stop`, which ends everything of its data folder and nothing else.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { lockFolder } from "#store/folder-lock.ts";
import { isServerOf } from "#store/postgres/postgres-orphan.ts";
import { drawTests } from "./support/drawn-cases.ts";
import { deploy } from "./support/examples.ts";
import { temporaryFolder } from "./support/folder.ts";
import { startGitServer } from "./support/git-server.ts";
import { startPlatformOnTestServer } from "./support/platform-on-test-server.ts";
import { startPlatform, type PlatformProcess } from "./support/platform-process.ts";
import { runStop as stop } from "./support/run-stop.ts";
import { until } from "./support/until.ts";

const test = drawTests({ what: "ends of the platform", count: 4, max: 2 });

const app = `import atexit, os, time

atexit.register(print, "the app is over", flush=True)

def run():
    return os.getpid()

def slow():
    print("slow begins")
    storage = os.environ["HF_HOME"].split("/.cache")[0]
    while not os.path.exists(storage + "/go"):
        time.sleep(0.05)
    return "done"
`;

async function withApp(t: TestContext, start: typeof startPlatform): Promise<PlatformProcess> {
  const git = await startGitServer(t);
  await git.createRepo("acme", "app", { "main.py": app });
  const platform = await start(t, { SLIPWAY_GIT_URL: git.urlTemplate });
  const wish = {
    name: "app",
    gitRepo: "acme/app",
    pythonVersion: "3.11",
    cooldownPeriodSeconds: 600,
  };
  const built = await deploy(platform, { ...wish, maxReplicaCount: 1, replicaConcurrency: 2 });
  assert.equal(built.status, "success", built.log);
  return platform;
}

/** Calls the app, which starts a replica if there is none. */
async function call(platform: PlatformProcess): Promise<void> {
  const answer = await platform.call("app", "run", {});
  assert.equal(answer.status, 200, await answer.text());
}

test("while the platform stops, whoever comes gets 503 with Retry-After, and running calls end", async (t) => {
  const platform = await withApp(t, startPlatformOnTestServer);
  const { baseUrl } = platform.bootstrap;
  const slow = platform.call("app", "slow", {});
  const logs = `/v2/projects/${platform.bootstrap.projectId}/apps/${platform.bootstrap.projectId}-app/logs`;
  await until("the app works on it", async () =>
    JSON.stringify((await platform.api("GET", logs)).body).includes("slow begins"),
  );
  const ended = platform.end("SIGINT");
  const stopping = async (path: string): Promise<boolean> => {
    const answer = await fetch(`${baseUrl}${path}`, { headers: { connection: "close" } });
    const text = await answer.text();
    return (
      answer.status === 503 &&
      answer.headers.has("retry-after") &&
      /The platform is stopping/.test(text)
    );
  };
  await until("it refuses", () => stopping("/readyz"));
  for (const path of ["/healthz", "/v2/projects", `/v4/${platform.bootstrap.projectId}/app/run`]) {
    assert.ok(await stopping(path), path);
  }
  writeFileSync(join(platform.dataDir, "storage", platform.bootstrap.projectId, "go"), "");
  assert.equal(((await (await slow).json()) as { result: string }).result, "done");
  assert.equal(await ended, 0);
  assert.match(
    platform.output(),
    /^1 replica keeps running and waits for the next npm start; npm run stop ends it$/m,
  );

  const { code, output } = await stop(platform.dataDir);
  assert.match(output, /^1 replica ended: app-\w+\.\n$/);
  assert.equal(code, 0);
});

test("npm run stop ends the platform, its replicas and its database, says so, and does nothing the second time", async (t) => {
  const platform = await withApp(t, startPlatform);
  await call(platform);
  const pid = platform.pid();
  const first = await stop(platform.dataDir);
  const said = first.output.trimEnd().split("\n");
  assert.equal(said[0], `The platform (process ${pid}) has stopped.`, first.errors);
  assert.match(said[1] ?? "", /^1 replica ended: app-\w+\.$/);
  assert.deepEqual([said.length, first.code, platform.hasEnded()], [2, 0, true]);
  assert.deepEqual(readdirSync(join(platform.dataDir, "replicas")), []);
  const second = await stop(platform.dataDir);
  assert.deepEqual(second, {
    code: 0,
    output: `Nothing of the data folder ${platform.dataDir} was running.\n`,
    errors: "",
  });

  await platform.restart();
  // What it printed and why it ended are known all the same.
  const { projectId } = platform.bootstrap;
  const ofApp = `/v2/projects/${projectId}/apps/${projectId}-app`;
  const logs = JSON.stringify((await platform.api("GET", `${ofApp}/logs`)).body);
  assert.match(logs, /the app is over/);
  assert.equal(existsSync(join(platform.dataDir, "ended-replicas")), false);
  await call(platform);
  const dataFolder = join(platform.dataDir, "postgres/data");
  const database = Number.parseInt(readFileSync(join(dataFolder, "postmaster.pid"), "utf8"), 10);
  await platform.end("SIGKILL");
  const { output } = await stop(platform.dataDir);
  assert.match(output, /^1 replica ended: app-\w+\.\n/);
  assert.equal(isServerOf(database, dataFolder), false);

  await platform.restart();
  await call(platform);
});

test("npm run stop ends no process that does not hold the lock of the data folder", async (t) => {
  const dataDir = temporaryFolder(t, "stop");
  const lock = lockFolder(join(dataDir, "slipway.lock"));
  t.after(() => lock.release());
  const stranger = spawn("sleep", ["1000"]);
  t.after(() => stranger.kill("SIGKILL"));
  writeFileSync(join(dataDir, "slipway.pid"), `${stranger.pid}\n`);
  const { code, errors } = await stop(dataDir);
  assert.match(errors, /is in use, but not by a platform of this machine/);
  assert.deepEqual([code, stranger.exitCode, stranger.signalCode], [1, null, null]);
});

test("a platform whose port is taken says which one, and how to choose another", async (t) => {
  const platform = await startPlatformOnTestServer(t);
  const { port } = new URL(platform.bootstrap.baseUrl);
  const message = `The platform cannot listen on 127.0.0.1, port ${port}: another program has that port. Set SLIPWAY_HOST or SLIPWAY_PORT.`;
  await assert.rejects(startPlatformOnTestServer(t, { SLIPWAY_PORT: port }), (error: Error) => {
    assert.ok(error.message.includes(`\n${message}\n`), error.message);
    assert.doesNotMatch(error.message, / {4}at /);
    return true;
  });
});
