// What fields change, seen by the callers of an app on a whole platform. Fields that other tests
// see from outside are not repeated; docs/fields.md lists them all.
import "./support/leftovers.ts";
import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { noEngine } from "./support/docker-engine.ts";
import { startDockerPlatform } from "./support/docker-platform.ts";
import { drawCases } from "./support/drawn-cases.ts";
import { deploy, replicaCount } from "./support/examples.ts";
import {
  callApp,
  containerEffects,
  deployTold,
  drivenEffects,
  toldFiles,
  type ToldApp,
} from "./support/field-effects.ts";
import { temporaryFolder } from "./support/folder.ts";
import { startGitServer } from "./support/git-server.ts";
import { startPlatformOnTestServer } from "./support/platform-on-test-server.ts";
import type { PlatformProcess } from "./support/platform-process.ts";
import { until } from "./support/until.ts";

const pools = `
[[pools]]
name = "near"
region = "eu-north-1"
provider = "local"
cores = 4
memory_gb = 8
overcommit = 100

[[pools]]
name = "far"
region = "us-east-1"
provider = "aws"
cores = 1
memory_gb = 8
`;

async function startPlatform(t: TestContext): Promise<PlatformProcess> {
  const server = await startGitServer(t);
  await server.createRepo("acme", "told", toldFiles);
  const poolsFile = join(temporaryFolder(t), "pools.toml");
  await writeFile(poolsFile, pools);
  return await startPlatformOnTestServer(t, {
    SLIPWAY_GIT_URL: server.urlTemplate,
    SLIPWAY_POOLS_FILE: poolsFile,
  });
}

/** Calls that last until the answered function is called, or the test ends. */
function hold(
  t: TestContext,
  { platform }: ToldApp,
  { name, calls }: { readonly name: string; readonly calls: number },
) {
  const abort = new AbortController();
  t.after(() => abort.abort());
  for (let call = 0; call < calls; call++)
    void callApp(platform, `${name}/hold`, abort.signal).catch(() => undefined);
  return () => abort.abort();
}

const scaled = {
  replicaConcurrency: 10,
  maxReplicaCount: 4,
  minReplicaCount: 1,
  cooldownPeriodSeconds: 0,
};

async function untilReplicas({ platform, appId }: ToldApp, count: number): Promise<void> {
  const isCount = async (): Promise<boolean> => (await replicaCount(platform, appId)) === count;
  await until(`${count} replicas`, isCount, { deadlineMs: 240_000 });
}

test(
  "with containers, each field that the driver carries out has the same effect",
  { skip: await noEngine() },
  async (t) => {
    const server = await startGitServer(t);
    await server.createRepo("acme", "told", toldFiles);
    const { platform } = await startDockerPlatform(t, { SLIPWAY_GIT_URL: server.urlTemplate });
    for (const [field, see] of drawCases(Object.entries(containerEffects), {
      what: "fields with containers",
      max: 2,
    })) {
      await t.test(field, async () => await see(await deployTold(platform, field.toLowerCase())));
    }
  },
);

test("each field changes what its app's callers see", async (t) => {
  const platform = await startPlatform(t);
  // The shortest limit is a minute; the other fields are checked meanwhile.
  const idle = deploy(platform, {
    name: "idle",
    gitRepo: "acme/told",
    gitPath: "idle",
    runtime: "custom",
    entrypoint: ["python3", "main.py"],
    cpu: 0.5,
    memory: 0.25,
    deploymentInitializationTimeout: 60,
  });

  for (const [field, see] of Object.entries(drivenEffects)) {
    await t.test(field, async () => await see(await deployTold(platform, field.toLowerCase())));
  }

  await t.test("loadBalancingAlgorithm", async () => {
    const settings = { minReplicaCount: 2, maxReplicaCount: 2, replicaConcurrency: 5 };
    const app = await deployTold(platform, "balanced", {
      ...settings,
      loadBalancingAlgorithm: "round-robin",
    });
    await untilReplicas(app, 2);
    const instances = async (): Promise<number> => {
      const calls: string[] = [];
      for (let call = 0; call < 4; call++) calls.push((await app.told()).instance);
      return new Set(calls).size;
    };
    await until("both take turns", async () => (await instances()) === 2);
    await app.change({ loadBalancingAlgorithm: "first-available" });
    await until("one takes all", async () => (await instances()) === 1);
  });

  await t.test("scalingTarget, scalingMetric and evaluationIntervalSeconds", async (part) => {
    const [quick, slow] = await Promise.all([
      deployTold(platform, "quick", { ...scaled, evaluationIntervalSeconds: 6 }),
      deployTold(platform, "slow", { ...scaled, evaluationIntervalSeconds: 300 }),
    ]);
    const ends = Object.entries({ quick, slow }).flatMap(([name, app]) => {
      hold(part, app, { name, calls: 1 });
      return [hold(part, app, { name, calls: 3 })];
    });
    for (const app of [quick, slow]) await app.change({ scalingTarget: 10 });
    for (const app of [quick, slow]) await untilReplicas(app, 4);
    for (const end of ends) end();
    await untilReplicas(quick, 1);
    assert.ok(
      (await replicaCount(platform, slow.appId)) > 1,
      "the mean over five minutes is higher",
    );
    await slow.change({ scalingMetric: "requests_per_second", scalingTarget: 1000 });
    await untilReplicas(slow, 1);
  });

  await t.test("provider and region", () => seePlaces(platform));

  await t.test("logLevel", () => seeLogLevel(platform));

  await t.test("cliVersion", async () => {
    const common = { gitRepo: "acme/told", gitPath: "cortex" };
    const told = await deploy(platform, { ...common, name: "told", cliVersion: "1.45.0-beta" });
    const untold = await deploy(platform, { ...common, name: "untold" });
    assert.match(told.log, /^Build 1 of told, as its client \(version 1\.45\.0-beta\) asked\.$/m);
    assert.match(untold.log, /^Build 1 of untold\.$/m);
  });

  await t.test("deploymentInitializationTimeout", async () => {
    const { status, log } = await idle;
    assert.equal(status, "init_timeout", log);
    assert.match(log, /It did not become ready within 60 seconds\. .*Nothing listens on port 8000/);
  });
});

async function seePlaces(platform: PlatformProcess): Promise<void> {
  const far = {
    name: "far",
    gitRepo: "acme/told",
    runtime: "custom",
    entrypoint: ["python3", "main.py"],
    cpu: 2,
  };
  const path = `/v2/projects/${platform.bootstrap.projectId}/apps/git`;
  for (const place of [{ region: "us-east-1" }, { provider: "aws" }]) {
    const { status, body } = await platform.api("POST", path, { ...far, ...place });
    assert.equal(status, 400, "the pool there has one core");
    assert.match(body.message, /needs 2 cores/);
  }
  for (const [name, place] of Object.entries({
    "in-region": { region: "eu-north-1" },
    "at-provider": { provider: "local" },
  })) {
    await deployTold(platform, name, { ...place, cpu: 2 });
  }
}

async function seeLogLevel(platform: PlatformProcess): Promise<void> {
  const common = { gitRepo: "acme/told", gitPath: "cortex" };
  const quiet = await deploy(platform, { ...common, name: "quiet", logLevel: "ERROR" });
  const loud = await deploy(platform, { ...common, name: "loud", logLevel: "DEBUG" });
  assert.deepEqual([quiet.status, loud.status], ["success", "success"], quiet.log + loud.log);
  assert.equal(quiet.log, "", "nothing failed");
  assert.match(loud.log, /Setting logLevel is "DEBUG"/);
  for (const [name, { appId }] of Object.entries({ quiet, loud })) {
    assert.equal((await platform.call(name, "run", {})).status, 200);
    const lines = async (): Promise<string> =>
      JSON.stringify(
        (
          await platform.api(
            "GET",
            `/v2/projects/${platform.bootstrap.projectId}/apps/${appId}/logs`,
          )
        ).body,
      );
    if (name === "loud")
      await until("the call is in the app's log", async () => /\b200\b/.test(await lines()));
    else assert.doesNotMatch(await lines(), /\b200\b/);
  }
}
