// What replicas use, as the API, the metrics and an app's page tell it, on both drivers and with a
// stand-in for nvidia-smi; and scaling by it.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { noEngine } from "#test/support/docker-engine.ts";
import { startDockerPlatform } from "#test/support/docker-platform.ts";
import { deploy, replicaCount } from "#test/support/examples.ts";
import { temporaryFolder } from "#test/support/folder.ts";
import { startGitServer } from "#test/support/git-server.ts";
import { freePorts } from "#test/support/free-ports.ts";
import { NvidiaSmi, testCard } from "#test/support/nvidia-smi.ts";
import { openPages, withoutBrowser } from "#test/support/page-stage.ts";
import { startPlatformOnTestServer } from "#test/support/platform-on-test-server.ts";
import type { PlatformProcess } from "#test/support/platform-process.ts";
import { until } from "#test/support/until.ts";

const noContainers = await noEngine();
/** Holds memory, and works for a while with each call. */
const main = `
import time

held = b"x" * 50_000_000

def run(text: str):
    end = time.process_time() + 0.5
    while time.process_time() < end:
        pass
    return len(text)
`;

type Usage = Readonly<Record<string, number | null>>;

/**
 * Deploys the app, calls it until its use of processor time is seen, and returns what the API and
 * the metrics tell.
 */
async function useOf(
  t: TestContext,
  start: (settings: Record<string, string>) => Promise<PlatformProcess>,
  fields: Record<string, unknown> = {},
) {
  const server = await startGitServer(t);
  await server.createRepo("acme", "app", { "main.py": main });
  const [port = ""] = await freePorts(1);
  const address = `127.0.0.1:${port}`;
  const platform = await start({
    SLIPWAY_GIT_URL: server.urlTemplate,
    SLIPWAY_METRICS_ADDRESS: address,
  });
  const app = await deploy(platform, {
    gitRepo: "acme/app",
    name: "busy",
    cpu: 1,
    memory: 0.5,
    minReplicaCount: 1,
    ...fields,
  });
  assert.equal(app.status, "success", app.log);
  const path = `/v2/projects/${platform.bootstrap.projectId}/apps/${app.appId}/containers`;
  const text = "x".repeat(1_000_000);
  const usage = await until("its use is seen", async (): Promise<Usage | null> => {
    assert.equal((await platform.call("busy", "run", { text })).status, 200);
    const [one] = (await platform.api("GET", path)).body as { usage: Usage | null }[];
    return (one?.usage?.["cpuCores"] ?? 0) > 0.02 ? (one?.usage ?? null) : null;
  });
  assert.ok(
    (usage["memoryBytes"] ?? 0) > 50e6 && (usage["memoryBytes"] ?? 0) < 500e6,
    JSON.stringify(usage),
  );
  const metrics = await (await fetch(`http://${address}/metrics`)).text();
  const metric = (name: string): number =>
    Number(new RegExp(`^${name}\\{[^}]*\\} (\\S+)$`, "m").exec(metrics)?.[1]);
  assert.ok(metric("slipway_replica_cpu_seconds_total") >= 0.5, metrics);
  assert.ok(metric("slipway_replica_memory_bytes") > 50e6, metrics);
  return { platform, appId: app.appId, usage, metric };
}

test("the use of a process and of its GPU is told by the API, the metrics and the app's page", async (t) => {
  const smi = new NvidiaSmi(join(temporaryFolder(t, "smi"), "bin"));
  smi.show([testCard(1, { usedMib: 2000, percent: 75 })]);
  const PATH = `${smi.folder}:${process.env["PATH"] ?? ""}`;
  const start = (settings: Record<string, string>) =>
    startPlatformOnTestServer(t, { ...settings, PATH });
  const { platform, appId, usage, metric } = await useOf(t, start, {
    compute: "ADA_L4",
    gpuCount: 1,
  });
  assert.equal(usage["gpuUtilization"], 0.75);
  assert.equal(usage["gpuMemoryBytes"], 2000 * 1024 * 1024);
  assert.equal(metric("slipway_replica_gpu_memory_bytes"), 2000 * 1024 * 1024);
  assert.equal(
    typeof usage["networkSentBytes"],
    process.getuid?.() === 0 ? "number" : "object",
    JSON.stringify(usage),
  );
  await t.test("on the page", { skip: withoutBrowser }, async (part) => {
    const { baseUrl, projectId, serviceAccountToken } = platform.bootstrap;
    const open = await openPages(part, baseUrl);
    const page = await open(`/dashboard/projects/${projectId}/apps/${appId}/replicas`);
    await page.click("Use a service account token");
    await page.type("Token", serviceAccountToken);
    await page.click("Use this token");
    await page.shows("GPU memory");
    await page.shows("75 %");
    await page.shows("2.10 GB");
    await page.shows(" cores");
  });
});

/**
 * A call holds memory, or works without a pause, until a file in the storage says that it may end.
 */
const keeping = `
import os
import time

def keep():
    held = os.urandom(1) * 350_000_000
    open("/persistent-storage/begun", "w").close()
    while not os.path.exists("/persistent-storage/enough"):
        time.sleep(0.01)
    return len(held)

def work():
    open("/persistent-storage/begun", "w").close()
    while not os.path.exists("/persistent-storage/enough"):
        pass
    return 0
`;

/**
 * One call of the function needs one replica, but more than the target of its memory or cores, and
 * less than that of two.
 */
async function scalesBy(
  t: TestContext,
  { metric, call }: { readonly metric: string; readonly call: string },
  start: (settings: Record<string, string>) => Promise<PlatformProcess>,
): Promise<void> {
  const server = await startGitServer(t);
  await server.createRepo("acme", "app", { "main.py": keeping });
  const platform = await start({ SLIPWAY_GIT_URL: server.urlTemplate });
  const app = await deploy(platform, {
    gitRepo: "acme/app",
    name: "keeping",
    cpu: 0.5,
    memory: 0.5,
    replicaConcurrency: 10,
    minReplicaCount: 1,
    maxReplicaCount: 4,
    cooldownPeriodSeconds: 0,
    scalingMetric: metric,
    scalingTarget: 60,
    evaluationIntervalSeconds: 6,
  });
  assert.equal(app.status, "success", app.log);
  const replicas = (count: number) =>
    until(`${count} replicas`, async () => (await replicaCount(platform, app.appId)) === count, {
      deadlineMs: 60_000,
    });
  await replicas(1);
  const storage = join(platform.dataDir, "storage", platform.bootstrap.projectId);
  const called = platform.call("keeping", call, {});
  await until("it has begun", () => existsSync(join(storage, "begun")));
  await replicas(2);
  writeFileSync(join(storage, "enough"), "");
  assert.equal((await called).status, 200);
  await replicas(1);
}

test("an app that scales by memory_utilization has another replica for as long as a call takes memory", (t) =>
  scalesBy(t, { metric: "memory_utilization", call: "keep" }, (settings) =>
    startPlatformOnTestServer(t, settings),
  ));

test(
  "an app in containers that scales by cpu_utilization has another one for as long as a call works",
  { skip: noContainers },
  (t) =>
    scalesBy(
      t,
      { metric: "cpu_utilization", call: "work" },
      async (settings) => (await startDockerPlatform(t, settings)).platform,
    ),
);

test("the use of a container and its network is told", { skip: noContainers }, async (t) => {
  const { usage, metric } = await useOf(
    t,
    async (settings) => (await startDockerPlatform(t, settings)).platform,
  );
  // The body of at least one call.
  assert.ok((usage["networkReceivedBytes"] ?? 0) > 1_000_000, JSON.stringify(usage));
  assert.ok(metric("slipway_replica_network_receive_bytes_total") > 1_000_000);
  assert.equal(usage["gpuMemoryBytes"], null);
});
