// An async run whose replica makes way for a protected one, on a whole platform: it is cut off,
// waits, and is tried again without using up a retry, also when the platform is killed meanwhile.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { deploy } from "#test/support/examples.ts";
import { temporaryFolder } from "#test/support/folder.ts";
import { startGitServer } from "#test/support/git-server.ts";
import type { Json } from "#test/support/management-api.ts";
import { startPlatformOnTestServer } from "#test/support/platform-on-test-server.ts";
import { until } from "#test/support/until.ts";

const pools = `
[[pools]]
name = "rack"
tier = "protected"
cores = 64
memory_gb = 256

[[pools.gpus]]
compute = "ADA_L4"
count = 1
memory_gb = 24
`;

/** Each attempt waits until the test lets it go on; a later one does not wait. */
const main = `
import os
import time

def run(name: str):
    began = "/persistent-storage/" + name
    if not os.path.exists(began):
        open(began, "w").close()
        while not os.path.exists(began + ".go"):
            time.sleep(0.01)
    return "done"

def serve():
    return "served"
`;

const onGpu = { compute: "ADA_L4", gpuCount: 1, cpu: 1, memory: 0.5, cooldownPeriodSeconds: 0 };

/**
 * An interruptible app that has the only card with a run, and a protected one that can take it. The
 * run may take long; its replica has `graceSeconds` from then on.
 */
async function openStage(t: TestContext, graceSeconds: number) {
  const server = await startGitServer(t);
  await server.createRepo("acme", "app", { "main.py": main });
  const poolsFile = join(temporaryFolder(t, "pools"), "pools.toml");
  writeFileSync(poolsFile, pools);
  const platform = await startPlatformOnTestServer(t, {
    SLIPWAY_GIT_URL: server.urlTemplate,
    SLIPWAY_POOLS_FILE: poolsFile,
    SLIPWAY_SIMULATE_COMPUTE: "true",
  });
  const common = { gitRepo: "acme/app", ...onGpu, responseGracePeriodSeconds: 600 };
  const low = await deploy(platform, { ...common, name: "low", retries: 0 });
  assert.equal(low.status, "success", low.log);
  const high = await deploy(platform, { ...common, name: "high", computeTier: "protected" });
  assert.equal(high.status, "success", high.log);

  const accepted = await platform.call("low", "run?async=true", { name: "first" });
  assert.equal(accepted.status, 202);
  const { run_id: runId } = (await accepted.json()) as { run_id: string };
  const { projectId } = platform.bootstrap;
  const app = `/v2/projects/${projectId}/apps/${low.appId}`;
  const runIs = async (status: string): Promise<Json> => {
    const ended = async (): Promise<Json> => {
      const { item } = (await platform.api("GET", `${app}/runs/${runId}`)).body;
      if (item.status === status || item.status === "failure") return item;
      throw new Error(JSON.stringify(item));
    };
    const item = await until(`the run is ${status}`, ended, { deadlineMs: 60_000 });
    assert.equal(item.status, status, JSON.stringify(item));
    return item;
  };
  await runIs("running");
  const storage = join(platform.dataDir, "storage", projectId);
  await until("the function has begun", () => existsSync(join(storage, "first")));
  const changed = await platform.api("PATCH", app, { responseGracePeriodSeconds: graceSeconds });
  assert.equal(changed.status, 200, JSON.stringify(changed.body));
  return {
    platform,
    runIs,
    letGo: () => writeFileSync(join(storage, "first.go"), ""),
    /** Until the replica with the run makes way. */
    makesWay: () =>
      until("the replica makes way", async () => {
        const { body } = await platform.api("GET", `${app}/containers`);
        return body.some(({ isTerminating }: Json) => isTerminating);
      }),
    isTold: () =>
      until("the app's log says why", async () => {
        const { logs } = (await platform.api("GET", `${app}/logs`)).body;
        return /A protected replica of another app took its place/.test(JSON.stringify(logs));
      }),
  };
}

test("a run that is cut off for a protected replica is tried again, with no retries to use up", async (t) => {
  const { platform, runIs, isTold } = await openStage(t, 16);
  const served = await platform.call("high", "serve", {});
  assert.equal(served.status, 200, await served.text());
  const item = await runIs("success");
  // Begun twice; the attempt that was cut off does not count.
  assert.deepEqual([item.attempts, item.releases], [1, [1, 1]], JSON.stringify(item));
  await isTold();
});

test("the same holds when the platform is killed while the replica makes way", async (t) => {
  const { platform, runIs, makesWay, isTold } = await openStage(t, 16);
  const call = platform.call("high", "serve", {}).catch(() => undefined);
  await makesWay();
  await platform.end("SIGKILL");
  await call;
  await platform.restart();
  const served = await platform.call("high", "serve", {});
  assert.equal(served.status, 200, await served.text());
  const item = await runIs("success");
  assert.deepEqual([item.attempts, item.releases], [1, [1, 1]], JSON.stringify(item));
  await isTold();
});

test("a run that ends on the replica that makes way is begun once, although the platform is killed meanwhile", async (t) => {
  const { platform, runIs, letGo, makesWay, isTold } = await openStage(t, 600);
  const call = platform.call("high", "serve", {}).catch(() => undefined);
  await makesWay();
  await platform.end("SIGKILL");
  await call;
  await platform.restart();
  const again = platform.call("high", "serve", {});
  await makesWay();
  letGo();
  const item = await runIs("success");
  assert.deepEqual([item.attempts, item.releases], [1, [1]], "it was begun once");
  assert.equal((await again).status, 200);
  await isTold();
});
