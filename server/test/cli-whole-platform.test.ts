// Commands against a whole platform, where another part has to answer: a webhook that is posted,
// usage that is metered, and a release that is live before it takes calls, as the command and the
// page say it.
import "./support/leftovers.ts";
import assert from "node:assert/strict";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { deploy } from "./support/examples.ts";
import { startGitServer } from "./support/git-server.ts";
import { openPages, signInOn, withoutBrowser } from "./support/page-stage.ts";
import type { PlatformProcess } from "./support/platform-process.ts";
import { startPlatformOnTestServer } from "./support/platform-on-test-server.ts";
import { commandsAt } from "./support/slipway-command.ts";
import { until } from "./support/until.ts";
import { startReceiver } from "./support/webhook-receiver.ts";

/** Does not start while the file is there. */
const main = `
import os, time

while os.path.exists("/persistent-storage/hold"):
    time.sleep(0.05)

def run(n: int):
    return {"twice": 2 * n}
`;

type Stage = {
  readonly platform: PlatformProcess;
  readonly slipway: ReturnType<typeof commandsAt>;
  readonly appPath: string;
};

test("commands against a whole platform", { timeout: 280_000 }, async (t) => {
  const stage = await start(t);
  await t.test("call --webhook says the run, and its result is posted there", (each) =>
    postsResult(each, stage),
  );
  await t.test("usage is by the names of apps", () => namesApps(stage));
  await t.test("rollback says what takes calls until its release does, as the page does", (each) =>
    says(each, stage),
  );
});

async function start(t: TestContext): Promise<Stage> {
  const git = await startGitServer(t);
  await git.createRepo("acme", "app", { "main.py": main });
  const platform = await startPlatformOnTestServer(t, {
    SLIPWAY_GIT_URL: git.urlTemplate,
    SLIPWAY_WEBHOOK_ALLOW: "127.0.0.0/8",
    SLIPWAY_METERING_SECONDS: "1",
  });
  const app = {
    name: "hello",
    gitRepo: "acme/app",
    cpu: 0.5,
    memory: 0.25,
    cooldownPeriodSeconds: 600,
  };
  const { appId, status, log } = await deploy(platform, app);
  assert.equal(status, "success", log);
  const { baseUrl, serviceAccountToken, inferenceToken, projectId } = platform.bootstrap;
  const env = {
    SLIPWAY_URL: baseUrl,
    SLIPWAY_TOKEN: serviceAccountToken,
    SLIPWAY_CALL_TOKEN: inferenceToken,
    SLIPWAY_PROJECT: projectId,
  };
  return {
    platform,
    slipway: commandsAt(t, { env }),
    appPath: `/v2/projects/${projectId}/apps/${appId}`,
  };
}

async function postsResult(t: TestContext, { slipway }: Stage): Promise<void> {
  const receiver = await startReceiver(t);
  const { code, stdout, stderr } = await slipway([
    "call",
    "hello/run",
    "n=21",
    "--webhook",
    receiver.url,
  ]).ended;
  assert.equal(code, 0, stderr);
  await until("the result is posted", () => receiver.received.length > 0, { deadlineMs: 60_000 });
  const [post] = receiver.received;
  const posted = JSON.parse(String(post?.body)) as { run_id: string; result: unknown };
  assert.deepEqual([posted.run_id, posted.result], [stdout.trim(), { twice: 42 }]);
  assert.equal(receiver.received.length, 1);
}

async function namesApps({ slipway, platform }: Stage): Promise<void> {
  const rows = async (): Promise<readonly string[]> =>
    (await slipway(["usage"]).ended).stdout.split("\n");
  const row = await until(
    "the app's usage is metered",
    async () => (await rows()).find((one) => one.startsWith("hello ")),
    {
      deadlineMs: 60_000,
    },
  );
  assert.match(row, /^hello +\d/);
  const all = (await rows()).join("\n");
  assert.ok(!all.includes(platform.bootstrap.projectId), `no id of an app: ${all}`);
}

async function says(t: TestContext, { platform, slipway, appPath }: Stage): Promise<void> {
  const { projectId, baseUrl, ownerEmail, ownerPassword } = platform.bootstrap;
  const called = async (): Promise<number> =>
    (await platform.call("hello", "run", { n: 1 })).status;
  assert.equal(await called(), 200);
  assert.equal((await platform.api("PATCH", appPath, { memory: 0.3 })).status, 200);
  const live = async (): Promise<number> =>
    Number((await platform.api("GET", appPath)).body.liveRelease);
  await until("the second release is live", async () => (await live()) === 2, {
    deadlineMs: 120_000,
  });
  const now = async (release: number): Promise<unknown> =>
    (await platform.api("GET", `${appPath}/releases/${release}`)).body.currentPercent;
  await until(
    "and takes all calls",
    async () => (await called()) === 200 && (await now(2)) === 100,
    {
      deadlineMs: 60_000,
    },
  );
  await until("replicas of the first have ended", async () => {
    const { body } = await platform.api("GET", `${appPath}/containers`);
    return (body as unknown[]).length === 1;
  });
  const hold = join(platform.dataDir, "storage", projectId, "hold");
  writeFileSync(hold, "");
  t.after(() => rmSync(hold, { force: true }));
  const back = slipway(["rollback", "hello"]);
  const waiting = "v2 still takes calls, until replicas of v1 are ready.";
  await until("the command says what takes calls", () => back.stderr().includes(waiting), {
    deadlineMs: 60_000,
  });
  assert.equal(await called(), 200, "calls are answered meanwhile");
  if (!withoutBrowser) {
    const page = await (
      await openPages(t, baseUrl)
    )(`/dashboard/projects/${projectId}/apps/hello/releases`);
    await signInOn(page, { email: ownerEmail, password: ownerPassword });
    await page.shows("0 % now, to be 100 %");
    await page.shows("100 % now, to be 0 %");
    rmSync(hold);
    await until(
      "the page says that it does",
      async () => !(await page.text()).includes("now, to be"),
      {
        deadlineMs: 60_000,
      },
    );
  }
  rmSync(hold, { force: true });
  const { code, stdout, stderr } = await back.ended;
  assert.equal(code, 0, stderr);
  assert.match(stdout + stderr, /Release v1 of \S+ is live again and takes all calls\./);
}
