// Restarts a platform under a load of calls, streams, WebSockets and async runs, however the test
// starts it.
import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import { LoadOfCalls } from "./load-of-calls.ts";
import type { CalledPlatform } from "./platform-process.ts";
import { until } from "./until.ts";

const callsPerSecond = Number(process.env["SLIPWAY_TEST_LOAD"] ?? "40");
const restarts = 2;
const deadlineMs = 120_000;

/**
 * Restarts the platform again and again while it is called, and checks that no call, stream,
 * WebSocket or async run has failed.
 */
export async function restartUnderLoad(
  t: TestContext,
  platform: CalledPlatform,
  restart: () => Promise<void>,
): Promise<void> {
  const { apiUrl, projectId } = platform.bootstrap;
  const load = new LoadOfCalls({
    urlOf: () => `${apiUrl}/v4/${projectId}/loaded`,
    callsPerSecond,
    hasRuns: true,
  });
  t.after(() => load.end());
  const isCalled = async (): Promise<void> => {
    const before = load.answered;
    const areAnswered = (): boolean => load.answered > before + callsPerSecond;
    await until("calls are answered", areAnswered, { deadlineMs });
  };
  await isCalled();
  for (let count = 0; count < restarts; count++) {
    await restart();
    await isCalled();
  }
  const { runs, failures, ...counts } = await load.end();
  t.diagnostic(JSON.stringify({ ...counts, runs: runs.length, failures: failures.length }));
  assert.deepEqual(failures, []);
  assert.ok(counts.calls > 0 && counts.streams > 0 && counts.sockets > 0 && runs.length > 0);
  await assertSucceeded(platform, runs);
}

/** Each run ends, and well. */
async function assertSucceeded(platform: CalledPlatform, runs: readonly string[]): Promise<void> {
  const { projectId } = platform.bootstrap;
  const path = `/v2/projects/${projectId}/apps/${projectId}-loaded/runs`;
  for (const run of runs) {
    const ended = await until(
      `run ${run} ends`,
      async () => {
        const { item } = (await platform.api("GET", `${path}/${run}`)).body;
        return ["pending", "queued", "running"].includes(item.status) ? undefined : item;
      },
      { deadlineMs },
    );
    assert.equal(ended.status, "success", JSON.stringify(ended));
  }
}
