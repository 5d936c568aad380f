// `kill -9` of the platform at random moments while async runs with webhooks flow through it: a
// real process, a real database, a real receiver. In full: `SLIPWAY_TEST_KILLS=30
// SLIPWAY_TEST_RUNS=2000 npm test -- server/test/async-chaos.test.ts`; a failure prints the seed,
// which SLIPWAY_TEST_SEED repeats.
import assert from "node:assert/strict";
import { test } from "node:test";
import { countOf } from "./support/drawn-cases.ts";
import { unseenSeed } from "./support/drawn-seed.ts";
import { startTraffic, type RunTraffic } from "./support/run-traffic.ts";
import { Seeded } from "./support/seeded.ts";
import { until } from "./support/until.ts";

const kills = Number(
  process.env["SLIPWAY_TEST_KILLS"] ?? countOf({ what: "kills", complete: 5, short: 2 }),
);
const runs = Number(
  process.env["SLIPWAY_TEST_RUNS"] ?? countOf({ what: "runs", complete: 300, short: 120 }),
);
const seed = Number(process.env["SLIPWAY_TEST_SEED"] ?? unseenSeed());

/**
 * Kills and starts again until all kills are done, each after a random number of things that
 * happened.
 */
async function killAgainAndAgain(traffic: RunTraffic, random: () => number): Promise<void> {
  for (let kill = 0; kill < kills; kill++) {
    const max = traffic.happened() + Math.floor((random() * runs * 3) / (2 * kills));
    const isTime = (): boolean => traffic.happened() >= max;
    // Near the end less happens than it was to wait for.
    await until("enough has happened for a kill", isTime, { deadlineMs: 3_000 }).catch(
      () => undefined,
    );
    await traffic.platform.end("SIGKILL");
    await traffic.platform.restart();
  }
}

test("runs and webhooks survive kills of the platform at any moment", async (t) => {
  const traffic = await startTraffic(t);
  t.diagnostic(`seed ${seed}: ${kills} kills, ${runs} runs`);
  await Promise.all([
    killAgainAndAgain(traffic, new Seeded(seed).next),
    traffic.send((numbers) => numbers >= runs),
  ]);
  assert.equal(traffic.accepted.size, runs);
  t.diagnostic(`ended: ${JSON.stringify(await traffic.settled())}`);
  const { counts } = traffic.receiver;
  const twice = [...counts.values()].filter((count) => count > 1).length;
  t.diagnostic(`${counts.size} deliveries, ${twice} of them came more than once`);
});
