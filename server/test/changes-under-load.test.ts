// What the guide "Changing and deleting apps" promises of changes under load. The walk
// (guides-walk.test.ts) follows its commands.
import assert from "node:assert/strict";
import { test } from "node:test";
import { deploy, serveExamples } from "./support/examples.ts";
import type { Json } from "./support/management-api.ts";
import { startPlatformOnTestServer } from "./support/platform-on-test-server.ts";
import type { PlatformProcess } from "./support/platform-process.ts";
import { until } from "./support/until.ts";

/** Calls the app without a pause until `stop`; returns the statuses. */
function callAlways(platform: PlatformProcess): {
  readonly stop: () => Promise<readonly number[]>;
} {
  const { baseUrl, projectId, inferenceToken } = platform.bootstrap;
  let isOver = false;
  const statuses: number[] = [];
  const loop = async (): Promise<void> => {
    while (!isOver) {
      const headers = {
        authorization: `Bearer ${inferenceToken}`,
        "content-type": "application/json",
      };
      const answer = await fetch(`${baseUrl}/v4/${projectId}/steady/run`, {
        method: "POST",
        headers,
        body: "{}",
      });
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

/** An app that runs, and what the API says of it and does to it. */
class SteadyApp {
  readonly #platform: PlatformProcess;
  readonly path: string;

  constructor(platform: PlatformProcess, appId: string) {
    this.#platform = platform;
    this.path = `/v2/projects/${platform.bootstrap.projectId}/apps/${appId}`;
  }

  async read(rest = ""): Promise<Json> {
    return (await this.#platform.api("GET", `${this.path}${rest}`)).body;
  }

  async change(fields: object): Promise<Json> {
    const answer = await this.#platform.api("PATCH", this.path, fields);
    assert.equal(answer.status, 200, JSON.stringify(answer.body));
    return answer.body;
  }

  async replicas(): Promise<string[]> {
    return (await this.read("/containers"))
      .filter((one: Json) => !one.isTerminating)
      .map((one: Json) => one.containerId);
  }
}

const waiting = { deadlineMs: 120_000 };

async function changeLive(app: SteadyApp, url: string): Promise<void> {
  await until("a replica runs", async () => (await app.replicas()).length === 1, waiting);
  const before = await app.replicas();
  assert.equal(
    (await app.change({ disableAuth: true, minReplicaCount: 2, maxReplicaCount: 3 })).change,
    "live",
  );
  await until(
    "calls need no token",
    async () => (await fetch(url, { method: "POST", body: "{}" })).ok,
    waiting,
  );
  await until("a second replica runs", async () => (await app.replicas()).length === 2, waiting);
  assert.ok((await app.replicas()).includes(before[0] ?? ""), "the first one was not restarted");
}

async function changeReplicas(app: SteadyApp): Promise<string> {
  const old = await app.replicas();
  const made = await app.change({ memory: 0.75 });
  assert.deepEqual([made.change, made.release], ["replica", 2]);
  await until(
    "release 2 takes the calls",
    async () => (await app.read()).liveBuildId === made.buildId,
    waiting,
  );
  assert.deepEqual((await app.read()).settings.memory, { value: 0.75, origin: "api" });
  const areNew = async (): Promise<boolean> => {
    const now = await app.replicas();
    return now.length === 2 && !now.some((id) => old.includes(id));
  };
  await until("all replicas are new", areNew, waiting);
  const { logs } = await app.read(`/builds/${made.buildId}/logs`);
  const text = logs.map((line: Json) => line.log).join("\n");
  assert.match(text, /Release 2 has other settings and the same files: nothing is built\./);
  assert.doesNotMatch(text, /Fetching/);
  return made.buildId;
}

async function changeBadly(platform: PlatformProcess, app: SteadyApp, live: string): Promise<void> {
  const refused = await platform.api("PATCH", app.path, { compute: "ADA_L4" });
  assert.equal(refused.status, 400, "there is no machine for it");
  const after = await app.read();
  assert.equal(after.liveBuildId, live);
  assert.deepEqual(after.settings.compute, { value: ["CPU"], origin: "repository" });
}

test("live changes restart nothing, other changes replace replicas, and no call fails", async (t) => {
  const platform = await startPlatformOnTestServer(t, { SLIPWAY_GIT_URL: await serveExamples(t) });
  const { baseUrl, projectId } = platform.bootstrap;
  const { appId, status, log } = await deploy(platform, {
    name: "steady",
    gitPath: "hello",
    minReplicaCount: 1,
  });
  assert.equal(status, "success", log);
  const app = new SteadyApp(platform, appId);
  const calls = callAlways(platform);
  await changeLive(app, `${baseUrl}/v4/${projectId}/steady/run`);
  await changeBadly(platform, app, await changeReplicas(app));
  const statuses = await calls.stop();
  assert.ok(statuses.length > 20);
  assert.deepEqual([...new Set(statuses)], [200]);
});
