// A budget on a whole platform: real replicas cost real time at prices that are raised for it,
// until calls are refused.
import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { gatedApp, startCallGate } from "./support/call-gate.ts";
import { deploy, replicaCount } from "./support/examples.ts";
import { makeFolder, removeFolder } from "./support/folder.ts";
import { startGitServer } from "./support/git-server.ts";
import { startPlatformOnTestServer } from "./support/platform-on-test-server.ts";
import type { PlatformProcess } from "./support/platform-process.ts";
import { until } from "./support/until.ts";
import "#test/support/leftovers.ts";

const toml = `[cerebrium.deployment]
name = "costly"
python_version = "3.11"
`;
/** A dollar for each second of a core. */
const prices = "[[prices]]\ncpu_core = 1\nmemory_gb = 0\n";
/** Much more than it takes until so much time of a replica is counted. */
const stopMs = 60_000;

async function openPlatform(
  t: TestContext,
  given: Readonly<Record<string, string>>,
): Promise<{ platform: PlatformProcess; budget: string; appId: string }> {
  const folder = makeFolder("prices");
  t.after(() => removeFolder(folder));
  const file = join(folder, "prices.toml");
  await writeFile(file, prices);
  const git = await startGitServer(t);
  await git.createRepo("acme", "costly", { "main.py": gatedApp, "slipway.toml": toml });
  const settings = {
    SLIPWAY_PRICES_FILE: file,
    SLIPWAY_METERING_SECONDS: "1",
    SLIPWAY_GIT_URL: git.urlTemplate,
    ...given,
  };
  const platform = await startPlatformOnTestServer(t, settings);
  const scaling = { maxReplicaCount: 1, replicaConcurrency: 1, cooldownPeriodSeconds: 600 };
  const app = await deploy(platform, { name: "costly", gitRepo: "acme/costly", ...scaling });
  assert.equal(app.status, "success", app.log);
  const budget = `/v2/projects/${platform.bootstrap.projectId}/apps/${app.appId}/budget`;
  return { platform, budget, appId: app.appId };
}

test("a budget that is reached stops an app with advice, ends no call, holds over a kill, and lets go when it is deleted", async (t) => {
  const gate = await startCallGate(t);
  const { platform, budget, appId } = await openPlatform(t, gate.settings);
  const { projectId } = platform.bootstrap;
  assert.equal((await platform.call("costly", "run", {})).status, 200);
  const long = platform.call("costly", "run", { gate: gate.urls });
  await until("the long call runs", () => gate.waiting() === 1);
  const accepted = await platform.call("costly", "run?async=true", {});
  assert.equal(accepted.status, 202);
  const { run_id: runId } = (await accepted.json()) as { run_id: string };
  const before = await platform.api("PUT", budget, { amount_cents: 100_000_000 });
  assert.equal(before.status, 200, JSON.stringify(before.body));
  const amount = Number(before.body.spent_cents) + 500;
  const set = await platform.api("PUT", budget, { amount_cents: amount, stop: true });
  assert.equal(set.status, 200, JSON.stringify(set.body));

  await until(
    "the budget stops the app",
    async () => (await platform.api("GET", budget)).body.stopped_at !== null,
    {
      deadlineMs: stopMs,
    },
  );
  const refused = await until("calls are refused", async () => {
    const answer = await platform.call("costly", "run?async=true", {});
    return answer.status === 402 ? answer : undefined;
  });
  const { message } = (await refused.json()) as { message: string };
  assert.match(
    message,
    /^The app does not accept calls: its budget for \d{4}-\d\d is used up\. It resumes at \d{4}-\d\d-01 00:00/,
  );
  assert.ok(message.endsWith(`raised (PUT ${budget}) or deleted (DELETE ${budget}).`), message);
  const plain = await platform.call("costly", "run", {});
  assert.deepEqual([plain.status, await plain.json()], [402, { message }]);
  const [build] = (await platform.api("GET", `/v2/projects/${projectId}/apps/${appId}/builds`))
    .body as {
    id: string;
  }[];
  const rebuilt = await platform.api(
    "POST",
    `/v2/projects/${projectId}/apps/${appId}/builds/${build?.id}/rebuild`,
  );
  assert.deepEqual(
    [rebuilt.status, rebuilt.body.message],
    [402, message],
    "nothing is built that could not run",
  );

  gate.open();
  const ended = await long;
  assert.equal(ended.status, 200, "the call that ran was not ended");
  await until("no replica is left", async () => (await replicaCount(platform, appId)) === 0, {
    deadlineMs: 30_000,
  });
  const runPath = `/v2/projects/${projectId}/apps/${appId}/runs/${runId}`;
  const statusOf = async (): Promise<unknown> =>
    (await platform.api("GET", runPath)).body.item.status;
  await until(
    "the run that was accepted before waits",
    async () => (await statusOf()) === "pending",
  );

  await platform.end("SIGKILL");
  await platform.restart();
  const again = await platform.call("costly", "run", {});
  assert.deepEqual(
    [again.status, await again.json()],
    [402, { message }],
    "it holds over a restart",
  );

  const deleted = await platform.api("DELETE", budget);
  assert.equal(deleted.status, 200, JSON.stringify(deleted.body));
  await until(
    "calls go through",
    async () => (await platform.call("costly", "run", {})).status === 200,
    {
      deadlineMs: 60_000,
    },
  );
  await until("the run goes on", async () => (await statusOf()) === "success", {
    deadlineMs: 60_000,
  });
  assert.deepEqual(await recordedOf(platform), [
    "budget.set service_account",
    "budget.set service_account",
    "budget.warn platform",
    "budget.stop platform",
    "budget.resume platform",
    "budget.delete service_account",
  ]);
});

/** What the audit log has of budgets, oldest first. */
async function recordedOf(platform: PlatformProcess): Promise<string[]> {
  const { body } = await platform.api(
    "GET",
    `/v2/projects/${platform.bootstrap.projectId}/audit-log?limit=200`,
  );
  return (body.logs as { action: string; actor: { type: string } }[])
    .filter(({ action }) => action.startsWith("budget."))
    .map(({ action, actor }) => `${action} ${actor.type}`)
    .toReversed();
}
