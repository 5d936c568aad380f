// An async run whose replica makes way for a protected one, on a whole platform: it is cut off, waits, and is tried again without
// using up a retry.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { deploy } from "#test/support/examples.ts";
import { temporaryFolder } from "#test/support/folder.ts";
import { startGitServer } from "#test/support/git-server.ts";
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

/** The first attempt does not end by itself. */
const main = `
import os
import time

def run(name: str):
    began = "/persistent-storage/" + name
    if not os.path.exists(began):
        open(began, "w").close()
        time.sleep(3600)
    return "done"

def serve():
    return "served"
`;

const onGpu = { compute: "ADA_L4", gpuCount: 1, cpu: 1, memory: 0.5, cooldownPeriodSeconds: 0 };

test("a run that is cut off for a protected replica is tried again, with no retries to use up", async (t) => {
  const server = await startGitServer(t);
  await server.createRepo("acme", "app", { "main.py": main });
  const poolsFile = join(temporaryFolder(t, "pools"), "pools.toml");
  writeFileSync(poolsFile, pools);
  const platform = await startPlatformOnTestServer(t, {
    ...{ SLIPWAY_GIT_URL: server.urlTemplate, SLIPWAY_POOLS_FILE: poolsFile, SLIPWAY_SIMULATE_COMPUTE: "true" },
  });
  const common = { gitRepo: "acme/app", ...onGpu, responseGracePeriodSeconds: 16 };
  const low = await deploy(platform, { ...common, name: "low", retries: 0 });
  assert.equal(low.status, "success", low.log);
  const high = await deploy(platform, { ...common, name: "high", computeTier: "protected" });
  assert.equal(high.status, "success", high.log);

  const accepted = await platform.call("low", "run?async=true", { name: "first" });
  assert.equal(accepted.status, 202);
  const { run_id: runId } = (await accepted.json()) as { run_id: string };
  const project = `/v2/projects/${platform.bootstrap.projectId}`;
  const runIs = (status: string) =>
    until(`the run is ${status}`, async () => {
      const { item } = (await platform.api("GET", `${project}/apps/${low.appId}/runs/${runId}`)).body;
      assert.notEqual(item.status, "failure", JSON.stringify(item));
      return item.status === status ? item : null;
    });
  await runIs("running");
  const served = await platform.call("high", "serve", {});
  assert.equal(served.status, 200, await served.text());
  const item = await runIs("success");
  // Begun twice; the attempt that was cut off does not count.
  assert.deepEqual([item.attempts, item.releases], [1, [1, 1]], JSON.stringify(item));
  const { logs } = (await platform.api("GET", `${project}/apps/${low.appId}/logs`)).body;
  assert.match(JSON.stringify(logs), /A protected replica of another app took its place/);
});
