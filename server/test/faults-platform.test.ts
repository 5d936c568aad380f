// The platform's process stands still for a while, or is killed and started again, while async runs
// with webhooks flow through it: nothing that was accepted is lost or ended twice, replicas
// survive, deliveries come at least once. The rounds are drawn from a seed, which is printed;
// SLIPWAY_TEST_SEED repeats it. In full (SLIPWAY_TEST_FAULTS=full) 200 rounds, some of which stand
// still for longer than leases last.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { test } from "node:test";
import { countOf } from "#test/support/drawn-cases.ts";
import { drawnOf, unseenSeed } from "#test/support/drawn-seed.ts";
import { startTraffic, type RunTraffic } from "#test/support/run-traffic.ts";
import { Seeded } from "#test/support/seeded.ts";
import { until } from "#test/support/until.ts";

const isFull = process.env["SLIPWAY_TEST_FAULTS"] === "full";
const rounds = isFull ? 200 : countOf({ what: "rounds", complete: 4, short: 2 });
const runsEach = 30;
const seed = Number(process.env["SLIPWAY_TEST_SEED"] ?? unseenSeed());
/** Leases of runs last for 30 s. */
const longMs = 40_000;
const longEvery = 50;

type Fault = {
  readonly kind: "killed" | "stands still";
  readonly afterRuns: number;
  readonly ms: number;
};

/** The first two rounds are one of each kind. */
function drawFault(seeded: Seeded, round: number): Fault {
  const isDrawn = seeded.chance(0.5);
  const afterRuns = seeded.integer(0, runsEach);
  const ms =
    isFull && round % longEvery === 1 ? longMs : seeded.integer(50, isFull ? 5_000 : 1_500);
  const isKilled = round < 2 ? round === 0 : isDrawn && ms !== longMs;
  return { kind: isKilled ? "killed" : "stands still", afterRuns, ms };
}

async function standStill(traffic: RunTraffic, ms: number): Promise<void> {
  const pid = traffic.platform.pid();
  const endMs = performance.now() + ms;
  process.kill(pid, "SIGSTOP");
  try {
    await until("it has stood still for long enough", () => performance.now() >= endMs, {
      deadlineMs: 2 * longMs,
    });
  } finally {
    process.kill(pid, "SIGCONT");
  }
}

async function replicasOf({ platform, appId }: RunTraffic): Promise<string[]> {
  const { body } = await platform.api(
    "GET",
    `/v2/projects/${platform.bootstrap.projectId}/apps/${appId}/containers`,
  );
  return (body as { id: string }[]).map(({ id }) => id).toSorted();
}

test(
  "a platform that stands still or is killed loses nothing",
  { timeout: isFull ? 7_200_000 : 240_000 },
  async (t) => {
    const seeded = new Seeded(drawnOf(seed).seed);
    t.diagnostic(`seed ${seed}: ${rounds} rounds`);
    const traffic = await startTraffic(t, { fields: { minReplicaCount: 2 } });
    await until("both replicas are there", async () => (await replicasOf(traffic)).length === 2);
    const replicas = await replicasOf(traffic);
    const kinds: Record<Fault["kind"], number> = { killed: 0, "stands still": 0 };
    for (let round = 0; round < rounds; round++) {
      const { kind, afterRuns, ms } = drawFault(seeded, round);
      const max = (round + 1) * runsEach;
      const sending = traffic.send((numbers) => numbers >= max);
      sending.catch(() => undefined);
      await until(
        "it is time",
        () => traffic.accepted.size >= max - runsEach + Math.min(afterRuns, runsEach - 1),
      );
      if (kind === "killed") {
        await traffic.platform.end("SIGKILL");
        await traffic.platform.restart();
      } else {
        await standStill(traffic, ms);
      }
      kinds[kind]++;
      await sending;
      assert.equal((await traffic.platform.call("work", "warm", {})).status, 200, "calls go on");
    }
    assert.equal(traffic.accepted.size, rounds * runsEach);
    const ended = await traffic.settled();
    t.diagnostic(
      `${JSON.stringify(kinds)}; ${traffic.accepted.size} runs ended: ${JSON.stringify(ended)}`,
    );
    assert.equal(
      ended["interrupted"],
      undefined,
      "the answer of each could be had: its replica lives",
    );
    assert.deepEqual(
      await replicasOf(traffic),
      replicas,
      "the replicas are those of the beginning",
    );
    const { counts } = traffic.receiver;
    const again = [...counts.values()].filter((count) => count > 1).length;
    t.diagnostic(`${counts.size} deliveries, ${again} of them came more than once`);
  },
);
