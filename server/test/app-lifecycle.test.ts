// An app that a person stops, starts, restarts and deletes, on a whole platform: no running call
// fails, nothing that was accepted is lost, and of two changes at once one wins.
import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import { drawTests } from "./support/drawn-cases.ts";
import { gatedApp, startCallGate, type CallGate } from "./support/call-gate.ts";
import { deploy, replicaCount } from "./support/examples.ts";
import { startGitServer } from "./support/git-server.ts";
import { startPlatformOnTestServer } from "./support/platform-on-test-server.ts";
import type { PlatformProcess } from "./support/platform-process.ts";
import { until } from "./support/until.ts";
import "#test/support/leftovers.ts";

const test = drawTests({ what: "stops and restarts of an app", count: 2, max: 1 });

const deadlineMs = 60_000;
const fields = {
  name: "story",
  gitRepo: "acme/story",
  pythonVersion: "3.11",
  cooldownPeriodSeconds: 600,
};

type Fixture = {
  readonly platform: PlatformProcess;
  readonly gate: CallGate;
  readonly app: string;
  readonly appId: string;
  readonly buildId: string;
  /** The app's ready and starting replicas. */
  replicas(): Promise<string[]>;
  statusOf(runId: string): Promise<string>;
};

async function fixture(t: TestContext, more: object = {}): Promise<Fixture> {
  const gate = await startCallGate(t);
  const git = await startGitServer(t);
  await git.createRepo("acme", "story", { "main.py": gatedApp });
  const platform = await startPlatformOnTestServer(t, {
    SLIPWAY_GIT_URL: git.urlTemplate,
    ...gate.settings,
  });
  const { appId, buildId, status, log } = await deploy(platform, { ...fields, ...more });
  assert.equal(status, "success", log);
  const app = `/v2/projects/${platform.bootstrap.projectId}/apps/${appId}`;
  return {
    platform,
    gate,
    app,
    appId,
    buildId,
    async replicas() {
      const { body } = await platform.api("GET", `${app}/containers`);
      return (body as { containerId: string; isTerminating: boolean }[]).flatMap((one) =>
        one.isTerminating ? [] : [one.containerId],
      );
    },
    statusOf: async (runId) =>
      (await platform.api("GET", `${app}/runs/${runId}`)).body.item.status as string,
  };
}

async function messageOf(answer: Response): Promise<[number, string]> {
  return [answer.status, ((await answer.json()) as { message: string }).message];
}

test("a stopped app refuses calls with a sentence, ends none, keeps its runs, over a kill, until it is started", async (t) => {
  const { platform, gate, app, appId, buildId, replicas, statusOf } = await fixture(t, {
    minReplicaCount: 1,
    maxReplicaCount: 1,
    replicaConcurrency: 1,
  });
  const long = platform.call("story", "run", { gate: gate.urls });
  await until("the long call runs", () => gate.waiting() === 1);
  const waiting = platform.call("story", "run", {});
  const accepted = await platform.call(
    "story",
    "run?async=true",
    {},
    { headers: { "slipway-retries": "0" } },
  );
  assert.equal(accepted.status, 202);
  const { run_id: runId } = (await accepted.json()) as { run_id: string };

  const stops = await Promise.all([
    platform.api("POST", `${app}/stop`),
    platform.api("POST", `${app}/stop`),
  ]);
  assert.deepEqual(
    stops.map(({ status }) => status).toSorted(),
    [200, 409],
    "one of two at once wins",
  );
  const refusal = `The app is stopped. It takes calls again when somebody starts it: POST ${app}/start.`;
  assert.deepEqual(await messageOf(await waiting), [503, refusal], "whoever waits is told");
  assert.deepEqual(await messageOf(await platform.call("story", "run", {})), [503, refusal]);
  assert.deepEqual(await messageOf(await platform.call("story", "run?async=true", {})), [
    503,
    refusal,
  ]);
  assert.equal((await platform.api("GET", app)).body.status, "STOPPED");
  const early = await platform.api("POST", `${app}/restart`);
  assert.deepEqual(
    [early.status, early.body.message],
    [409, "The app is stopped; start it instead."],
  );
  gate.open();
  assert.equal((await long).status, 200, "the call that ran has ended as ever");
  await until("no replica is left", async () => (await replicaCount(platform, appId)) === 0, {
    deadlineMs,
  });

  await platform.end("SIGKILL");
  await platform.restart();
  assert.deepEqual(
    await messageOf(await platform.call("story", "run", {})),
    [503, refusal],
    "it holds over a kill",
  );
  const rebuilt = await platform.api("POST", `${app}/builds/${buildId}/rebuild`);
  assert.equal(rebuilt.status, 201, JSON.stringify(rebuilt.body));
  const built = `${app}/builds/${rebuilt.body.buildId ?? rebuilt.body.id}`;
  await until(
    "a deploy builds",
    async () => (await platform.api("GET", built)).body.status === "success",
    {
      deadlineMs: 120_000,
    },
  );
  const { logs } = (await platform.api("GET", `${built}/logs`)).body as { logs: { log: string }[] };
  assert.ok(
    logs.some(({ log }) => log.startsWith("The app is stopped, so the release is not tried now.")),
  );
  assert.deepEqual(await replicas(), [], "and starts nothing");
  await until("the run waits", async () => (await statusOf(runId)) === "pending");

  const starts = await Promise.all([
    platform.api("POST", `${app}/start`),
    platform.api("POST", `${app}/start`),
  ]);
  assert.deepEqual(starts.map(({ status }) => status).toSorted(), [200, 409]);
  await until("its minimum starts without a call", async () => (await replicas()).length === 1, {
    deadlineMs,
  });
  await until(
    "calls go through",
    async () => (await platform.call("story", "run", {})).status === 200,
    { deadlineMs },
  );
  await until("the run goes on", async () => (await statusOf(runId)) === "success", { deadlineMs });
  assert.equal((await platform.api("GET", app)).body.status, "ACTIVE");
  const { body } = await platform.api(
    "GET",
    `/v2/projects/${platform.bootstrap.projectId}/audit-log?limit=200`,
  );
  const actions = (body.logs as { action: string; outcome: string }[])
    .filter(({ action }) => /^app\.(?:stop|start|restart)$/.test(action))
    .map(({ action, outcome }) => `${action} ${outcome}`);
  const expected = ["app.restart failure", "app.start failure", "app.start success"];
  assert.deepEqual(actions.toSorted(), [...expected, "app.stop failure", "app.stop success"]);
});

test("a restart replaces the replica while calls go on, and ends none of them; a build outlives a stop", async (t) => {
  const { platform, gate, app, appId, buildId, replicas } = await fixture(t, {
    minReplicaCount: 1,
    maxReplicaCount: 1,
  });
  await until("it runs", async () => (await replicas()).length === 1, { deadlineMs });
  const [old] = await replicas();
  const long = platform.call("story", "run", { gate: gate.urls });
  await until("the long call runs", () => gate.waiting() === 1);
  assert.equal((await platform.api("POST", `${app}/restart`)).status, 200);
  const isReplaced = async (): Promise<boolean> => {
    assert.equal((await platform.call("story", "run", {})).status, 200);
    const now = await replicas();
    return now.length === 1 && now[0] !== old;
  };
  await until("another one serves", isReplaced, { deadlineMs });
  gate.open();
  assert.equal((await long).status, 200);

  const rebuilt = await platform.api("POST", `${app}/builds/${buildId}/rebuild`);
  assert.equal((await platform.api("POST", `${app}/stop`)).status, 200);
  const built = `${app}/builds/${rebuilt.body.buildId ?? rebuilt.body.id}`;
  await until(
    "the build ends well",
    async () => (await platform.api("GET", built)).body.status === "success",
    {
      deadlineMs: 120_000,
    },
  );
  await until("no replica is left", async () => (await replicaCount(platform, appId)) === 0, {
    deadlineMs,
  });
});
