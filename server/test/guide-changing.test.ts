// The guide "Changing and deleting apps", taken from the guide itself: its commands are run by bash against a real platform
// process and real apps, and must print what the guide shows. And what it promises of changes under load.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { deploy, serveExamples } from "./support/examples.ts";
import { guideBlocks, runGuide } from "./support/guide.ts";
import type { Json } from "./support/management-api.ts";
import { startPlatformOnTestServer } from "./support/platform-on-test-server.ts";
import type { PlatformProcess } from "./support/platform-process.ts";
import { until } from "./support/until.ts";

const guide = join(import.meta.dirname, "../../docs/guides/changing-and-deleting-apps.md");

test("every command of the guide prints what the guide shows", async (t) => {
  const blocks = guideBlocks(await readFile(guide, "utf8"));
  const platform = await startPlatformOnTestServer(t, { SLIPWAY_GIT_URL: await serveExamples(t) });
  await runGuide(blocks, platform);
});

/** Calls the app without a pause until `stop`; returns the statuses. */
function callAlways(platform: PlatformProcess): { readonly stop: () => Promise<readonly number[]> } {
  const { baseUrl, projectId, inferenceToken } = platform.bootstrap;
  let isOver = false;
  const statuses: number[] = [];
  const loop = async (): Promise<void> => {
    while (!isOver) {
      const headers = { authorization: `Bearer ${inferenceToken}`, "content-type": "application/json" };
      const answer = await fetch(`${baseUrl}/v4/${projectId}/steady/run`, { method: "POST", headers, body: "{}" });
      await answer.arrayBuffer();
      statuses.push(answer.status);
    }
  };
  const loops = [loop(), loop()];
  return {
    async stop() {
      isOver = true;
      await Promise.all(loops);
      return statuses;
    },
  };
}

test("live changes restart nothing, other changes replace replicas, and no call fails", async (t) => {
  const platform = await startPlatformOnTestServer(t, { SLIPWAY_GIT_URL: await serveExamples(t) });
  const { baseUrl, projectId } = platform.bootstrap;
  const { appId, status, log } = await deploy(platform, { name: "steady", gitPath: "hello", minReplicaCount: 1 });
  assert.equal(status, "success", log);
  const path = `/v2/projects/${projectId}/apps/${appId}`;
  const change = async (fields: object): Promise<Json> => {
    const answer = await platform.api("PATCH", path, fields);
    assert.equal(answer.status, 200, JSON.stringify(answer.body));
    return answer.body;
  };
  const replicas = async (): Promise<string[]> => {
    const { body } = await platform.api("GET", `${path}/containers`);
    return (body as Json[]).filter((one) => !one.isTerminating).map((one) => one.containerId);
  };
  const before = await until("a replica runs", async () =>
    (await replicas()).length === 1 ? await replicas() : undefined,
  );
  const calls = callAlways(platform);
  assert.equal((await change({ disableAuth: true, minReplicaCount: 2, maxReplicaCount: 3 })).change, "live");
  const withoutToken = async (): Promise<boolean> =>
    (await fetch(`${baseUrl}/v4/${projectId}/steady/run`, { method: "POST", body: "{}" })).ok;
  await until("the app takes calls without a token", withoutToken);
  await until("a second replica runs", async () => (await replicas()).length === 2);
  assert.ok((await replicas()).includes(before[0] ?? ""), "the first one was not restarted");

  const made = await change({ memory: 0.75 });
  assert.deepEqual([made.change, made.release], ["replica", 2]);
  const old = await replicas();
  const { body: pending } = await platform.api("GET", path);
  assert.ok(pending.settings.memory.pending === 0.75 || pending.settings.memory.value === 0.75);
  await until(
    "release 2 takes the calls",
    async () => {
      const { body: app } = await platform.api("GET", path);
      return app.settings.memory.value === 0.75 && app.liveBuildId === made.buildId;
    },
    { deadlineMs: 60_000 },
  );
  await until(
    "all replicas are new",
    async () => {
      const now = await replicas();
      return now.length === 2 && !now.some((id) => old.includes(id));
    },
    { deadlineMs: 60_000 },
  );
  const { body: lines } = await platform.api("GET", `${path}/builds/${made.buildId}/logs`);
  const text = (lines.logs as Json[]).map((line) => line.log).join("\n");
  assert.match(text, /Release 2 has other settings and the same files: nothing is built\./);
  assert.doesNotMatch(text, /Fetching/);

  // A start that cannot work changes nothing for those who call.
  const bad = await change({ compute: "ADA_L4" });
  await until(
    "the release without a machine ends",
    async () => {
      const { body: build } = await platform.api("GET", `${path}/builds/${bad.buildId}`);
      return build.endedAt !== null;
    },
    { deadlineMs: 120_000 },
  );
  const { body: after } = await platform.api("GET", path);
  assert.equal(after.liveBuildId, made.buildId);
  assert.deepEqual(after.settings.compute, { value: ["CPU"], origin: "repository", pending: ["ADA_L4"] });

  const statuses = await calls.stop();
  assert.ok(statuses.length > 20);
  assert.deepEqual([...new Set(statuses)], [200]);
});
