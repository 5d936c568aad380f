// `kill -9` of the platform at random moments while async runs with webhooks flow through it: a real process, a real
// database, a real receiver. In full: `SLIPWAY_TEST_KILLS=30 SLIPWAY_TEST_RUNS=2000 npm test -- server/test/async-chaos.test.ts`; a failure
// prints the seed, which SLIPWAY_TEST_SEED repeats.
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { deploy } from "./support/examples.ts";
import { startGitServer } from "./support/git-server.ts";
import { startPlatform, type PlatformProcess } from "./support/platform-process.ts";
import { Seeded } from "./support/seeded.ts";
import { until } from "./support/until.ts";
import { startReceiver, type WebhookReceiver } from "./support/webhook-receiver.ts";

const kills = Number(process.env["SLIPWAY_TEST_KILLS"] ?? "5");
const runs = Number(process.env["SLIPWAY_TEST_RUNS"] ?? "300");
const seed = Number(process.env["SLIPWAY_TEST_SEED"] ?? String(Date.now() % 1_000_000));
const finalStates = new Set(["success", "failure", "cancelled", "timeout"]);
const sendersAtOnce = 16;

/** Tells how often it has run for each sent request, and fails for every tenth number. */
const workApp = `import collections, time

seen = collections.Counter()

def run(number, sent):
    seen[number, sent] += 1
    time.sleep((number % 7) / 100)
    if number % 10 == 0:
        raise ValueError("every tenth fails")
    return {"number": number, "times": seen[number, sent]}
`;

/** Accepted runs by their number. */
type Accepted = Map<number, string>;

/** Sends one run until it is accepted: with a key it is repeated as it is, without one a doubtful send does not count. */
async function send(
  platform: PlatformProcess,
  receiver: WebhookReceiver,
  number: number,
  accepted: Accepted,
): Promise<void> {
  const hook = `run?async=true&webhookEndpoint=${encodeURIComponent(receiver.url)}`;
  const isKeyed = number % 2 === 0;
  const headers: Record<string, string> = isKeyed ? { "idempotency-key": `number-${number}` } : {};
  let sent = 0;
  await until(
    `run ${number} is accepted`,
    async () => {
      const response = await platform.call("work", hook, { number, sent }, { headers }).catch(() => null);
      // Without a key nobody knows whether a doubtful request was accepted: the next one is another.
      if (response?.status !== 202 && !isKeyed) sent++;
      if (response?.status !== 202) return false;
      const { run_id: runId } = (await response.json().catch(() => ({}))) as { run_id?: string };
      if (runId === undefined && !isKeyed) sent++;
      if (runId === undefined) return false;
      accepted.set(number, runId);
      return true;
    },
    { deadlineMs: 120_000 },
  );
}

async function sendAll(platform: PlatformProcess, receiver: WebhookReceiver, accepted: Accepted): Promise<void> {
  let next = 1;
  const sender = async (): Promise<void> => {
    while (next <= runs) await send(platform, receiver, next++, accepted);
  };
  await Promise.all(Array.from({ length: sendersAtOnce }, sender));
}

/** Kills and starts again until all kills are done, each after a random number of things that happened. */
async function killAgainAndAgain(
  platform: PlatformProcess,
  random: () => number,
  happened: () => number,
): Promise<void> {
  for (let kill = 0; kill < kills; kill++) {
    const most = happened() + Math.floor((random() * runs * 3) / (2 * kills));
    const isTime = (): boolean => happened() >= most;
    // Near the end less happens than it was to wait for.
    await until("enough has happened for a kill", isTime, { deadlineMs: 3_000 }).catch(() => undefined);
    await platform.end("SIGKILL");
    await platform.restart();
  }
}

type Item = {
  readonly id: string;
  readonly status: string;
  readonly statusCode: number | null;
  readonly reason: string | null;
};

async function ended(platform: PlatformProcess, appId: string, runId: string): Promise<Item> {
  const { projectId } = platform.bootstrap;
  const path = `/v2/projects/${projectId}/apps/${appId}/runs/${runId}`;
  let item: Item | undefined;
  await until(
    `run ${runId} has ended`,
    async () => {
      const { status, body } = await platform.api("GET", path);
      assert.equal(status, 200, `an accepted run is known: ${JSON.stringify(body)}`);
      item = body.item as Item;
      return finalStates.has(item.status);
    },
    { deadlineMs: 120_000 },
  );
  assert.ok(item !== undefined);
  return item;
}

async function stage(t: TestContext): Promise<{ platform: PlatformProcess; receiver: WebhookReceiver; appId: string }> {
  const git = await startGitServer(t);
  await git.createRepo("acme", "work", { "main.py": workApp });
  const receiver = await startReceiver(t);
  const platform = await startPlatform(t, { SLIPWAY_GIT_URL: git.urlTemplate, SLIPWAY_WEBHOOK_ALLOW: "127.0.0.0/8" });
  const app = await deploy(platform, {
    name: "work",
    gitRepo: "acme/work",
    pythonVersion: "3.11",
    cooldownPeriodSeconds: 600,
    replicaConcurrency: 8,
    maxReplicaCount: 2,
  });
  assert.equal(app.status, "success", app.log);
  return { platform, receiver, appId: app.appId };
}

test("runs and webhooks survive kills of the platform at any moment", async (t) => {
  const { platform, receiver, appId } = await stage(t);
  const accepted: Accepted = new Map();
  t.diagnostic(`seed ${seed}: ${kills} kills, ${runs} runs`);
  const happened = (): number => accepted.size + receiver.received.length;
  await Promise.all([
    killAgainAndAgain(platform, new Seeded(seed).next, happened),
    sendAll(platform, receiver, accepted),
  ]);
  assert.equal(accepted.size, runs);

  const items = new Map<number, Item>();
  for (const [number, runId] of accepted) items.set(number, await ended(platform, appId, runId));
  const counts: Record<string, number> = {};
  for (const [number, item] of items) {
    const isInterrupted = item.reason?.startsWith("interrupted") === true;
    const key = isInterrupted ? "interrupted" : item.status;
    counts[key] = (counts[key] ?? 0) + 1;
    if (isInterrupted) continue;
    assert.equal(item.status, number % 10 === 0 ? "failure" : "success", `run ${number}: ${JSON.stringify(item)}`);
  }
  t.diagnostic(`ended: ${JSON.stringify(counts)}`);

  const deliveredOf = (runId: string) => receiver.received.filter(({ headers }) => headers["x-request-id"] === runId);
  await until("every run was delivered", () => [...accepted.values()].every((runId) => deliveredOf(runId).length > 0), {
    deadlineMs: 120_000,
  });
  for (const [number, runId] of accepted) {
    if (items.get(number)?.status !== "success") continue;
    const { result } = JSON.parse(String(deliveredOf(runId)[0]?.body)) as { result: { number: number; times: number } };
    assert.deepEqual(result, { number, times: 1 }, "the function ran once, and its own answer was delivered");
  }
  const twice = [...receiver.counts.values()].filter((count) => count > 1).length;
  t.diagnostic(`${receiver.counts.size} deliveries, ${twice} of them came more than once`);
  const { projectId } = platform.bootstrap;
  for (const status of ["pending", "queued", "running"]) {
    const path = `/v2/projects/${projectId}/apps/${appId}/runs?status=${status}`;
    // Those too whose 202 was cut off by a kill, for which nobody has waited.
    await until(`no run is left ${status}`, async () => (await platform.api("GET", path)).body.items.length === 0, {
      deadlineMs: 120_000,
    });
  }
});
