// A kill of the platform right after each durable step of an async run and of its webhook:
// accepted, claimed, started, ended, given back, taken over; delivery added, claimed, sent,
// written. Whatever the step, the next start ends every run in one final state and delivers it.
import assert from "node:assert/strict";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { runSteps } from "#runs/run-steps.ts";
import { webhookSteps } from "#webhooks/webhook-step.ts";
import { drawCases } from "./support/drawn-cases.ts";
import { deploy } from "./support/examples.ts";
import { startGitServer } from "./support/git-server.ts";
import { startPlatformOnTestServer } from "./support/platform-on-test-server.ts";
import type { PlatformProcess } from "./support/platform-process.ts";
import { until } from "./support/until.ts";
import { startReceiver, type WebhookReceiver } from "./support/webhook-receiver.ts";

const entry = join(import.meta.dirname, "support/crashing-platform.ts");

const app = `import collections

seen = collections.Counter()

def run(number):
    seen[number] += 1
    return {"number": number, "times": seen[number]}

def busy(number):
    seen[number] += 1
    if seen[number] == 1:
        return {"status_code": 503}
    return {"number": number, "times": 1}
`;

/** More than there is room for at once, so that some are claimed. */
const runsEach = 30;
const replicas = { cooldownPeriodSeconds: 600, maxReplicaCount: 1, replicaConcurrency: 2 };

/** Steps of webhooks that nothing in this test takes: nobody pauses, resumes or replays. */
const notTaken = new Set(["paused", "resumed", "replayed"]);

const drawnSteps = drawCases(
  [...runSteps, ...webhookSteps].filter((step) => !notTaken.has(step)),
  {
    what: "durable steps",
    max: 3,
    kindOf: (step) => {
      if (step === "run taken over") return step;
      return step.split(" ")[0] === "run" ? "run" : "webhook";
    },
  },
);

/** A takeover happens at a start, of runs that a kill has left running. */
const steps = drawnSteps.flatMap((step) =>
  step === "run taken over" ? (["run started", step] as const) : [step],
);

type Stage = {
  platform: PlatformProcess;
  receiver: WebhookReceiver;
  appId: string;
  accepted: Map<number, string>;
};

async function stage(t: TestContext): Promise<Stage> {
  const git = await startGitServer(t);
  await git.createRepo("acme", "steps", { "main.py": app });
  // The first try of every fifth finds the receiver busy, so that deliveries wait and are claimed.
  const tried = new Set<string>();
  const receiver = await startReceiver(t, ({ headers }) => {
    const id = String(headers["webhook-id"]);
    const isFirst = !tried.has(id);
    tried.add(id);
    return isFirst && tried.size % 5 === 0 ? 503 : 200;
  });
  const settings = { SLIPWAY_GIT_URL: git.urlTemplate, SLIPWAY_WEBHOOK_ALLOW: "127.0.0.0/8" };
  const platform = await startPlatformOnTestServer(t, settings);
  const deployed = await deploy(platform, {
    name: "steps",
    gitRepo: "acme/steps",
    pythonVersion: "3.11",
    ...replicas,
  });
  assert.equal(deployed.status, "success", deployed.log);
  const { projectId } = platform.bootstrap;
  const schedule = await platform.api("PUT", `/v2/projects/${projectId}/webhook-schedule`, {
    schedule: "short",
  });
  assert.equal(schedule.status, 200, JSON.stringify(schedule.body));
  return { platform, receiver, appId: deployed.appId, accepted: new Map() };
}

/** Sends runs until the platform is gone or all are sent; those that were answered 202 count. */
async function sendRuns({ platform, receiver, accepted }: Stage, from: number): Promise<void> {
  const hook = encodeURIComponent(receiver.url);
  const sends = Array.from({ length: runsEach }, async (_, index) => {
    const number = from + index;
    const path = `${number % 4 === 0 ? "busy" : "run"}?async=true&webhookEndpoint=${hook}`;
    const headers = { "slipway-retries": number % 4 === 0 ? "2" : "0" };
    const response = await platform.call("steps", path, { number }, { headers }).catch(() => null);
    if (response?.status !== 202) return;
    const text = await response.text().catch(() => "");
    if (text !== "") accepted.set(number, (JSON.parse(text) as { run_id: string }).run_id);
  });
  await Promise.all(sends);
}

/** Also those whose 202 was cut off by the kill. */
async function everyRunEnds({ platform, accepted, appId }: Stage): Promise<void> {
  const { projectId } = platform.bootstrap;
  const list = `/v2/projects/${projectId}/apps/${appId}/runs?asyncOnly=true`;
  for (const status of ["pending", "queued", "running"]) {
    const isNone = async (): Promise<boolean> =>
      (await platform.api("GET", `${list}&status=${status}`)).body.items.length === 0;
    await until(`no run is ${status}`, isNone, { deadlineMs: 60_000 });
  }
  for (const status of ["failure", "timeout", "cancelled"]) {
    const { body } = await platform.api("GET", `${list}&status=${status}`);
    assert.deepEqual(body.items, [], `no run is a ${status}`);
  }
  for (const runId of accepted.values()) {
    const { body } = await platform.api(
      "GET",
      `/v2/projects/${projectId}/apps/${appId}/runs/${runId}`,
    );
    assert.equal(body.item?.status, "success", JSON.stringify(body));
  }
}

test("after a kill behind any durable step, every accepted run ends once and is delivered", async (t) => {
  const fixture = await stage(t);
  const { platform, receiver, accepted } = fixture;
  let from = 0;
  for (const step of steps) {
    const isAtStart = step === "run taken over";
    await platform.end("SIGKILL");
    const environment = {
      CRASH_AFTER: step,
      CRASH_COUNT: isAtStart ? "1" : "3",
      CRASH_WHEN: isAtStart ? "" : "ready",
    };
    const isReady = await platform.restart({ entry, environment }).then(
      () => true,
      () => false,
    );
    // What the kills before have left may lead to the step in the moment that it is ready.
    // Steps that come later than these runs' take some more.
    while (isReady && !platform.hasEnded()) {
      await sendRuns(fixture, from);
      from += runsEach;
    }
    await platform.ended();
    t.diagnostic(`killed after "${step}", ${accepted.size} accepted so far`);
  }
  await platform.end("SIGKILL");
  await platform.restart();

  await everyRunEnds(fixture);
  const bodies = new Map(
    receiver.received.map((one) => [String(one.headers["x-request-id"]), one.body]),
  );
  await until(
    "every run is delivered",
    () => {
      for (const one of receiver.received)
        bodies.set(String(one.headers["x-request-id"]), one.body);
      return [...accepted.values()].every((runId) => bodies.has(runId));
    },
    { deadlineMs: 60_000 },
  );
  for (const [number, runId] of accepted) {
    const { result } = JSON.parse(String(bodies.get(runId))) as {
      result: { number: number; times: number };
    };
    assert.deepEqual(result, { number, times: 1 });
  }
});
