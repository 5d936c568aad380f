// How many replicas there should be, from load, settings and time.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { decide, newHistory, type LoadHistory, type ScalingSettings } from "./decide.ts";
import { noDemand, type Demand } from "./demand.ts";
import type { MeasuredLoad } from "./utilization.ts";

const settings: ScalingSettings = {
  minReplicaCount: 0,
  maxReplicaCount: 10,
  cooldownPeriodSeconds: 10,
  replicaConcurrency: 1,
  scalingMetric: "concurrency_utilization",
  scalingTarget: 100,
  scalingBuffer: 0,
  evaluationIntervalSeconds: 30,
};

/** One app looked at again and again. */
function looker(changes: Partial<ScalingSettings> = {}, replicas = 0) {
  let history: LoadHistory = newHistory(replicas, 0);
  return (
    atSeconds: number,
    demand: Partial<Demand> = {},
    measured: MeasuredLoad | null = null,
  ): number => {
    const given = { ...settings, ...changes };
    const decision = decide({
      settings: given,
      demand: { ...noDemand, ...demand },
      measured,
      history,
      cooldownSecondsMax: given.cooldownPeriodSeconds,
      nowMs: atSeconds * 1000,
    });
    history = decision.history;
    return decision.desired;
  };
}

describe("concurrency_utilization", () => {
  test("three calls of an app with concurrency 1 and no replica ask for three replicas at once", () => {
    assert.equal(looker()(0, { waiting: 3 }), 3);
  });

  test("running and waiting calls count alike", () => {
    assert.equal(looker({ replicaConcurrency: 4 })(0, { running: 4, waiting: 1 }), 2);
  });

  /**
   * Looks every second while so many calls run, until second `to`; the number of replicas at the
   * end.
   */
  const steady = (
    look: ReturnType<typeof looker>,
    running: number,
    to: number,
  ): number | undefined => {
    let count: number | undefined;
    for (let second = 0; second <= to; second++)
      count = look(second, { running, runMs: running * second * 1000 });
    return count;
  };

  test("a target of 80 percent of 200 calls gives each replica 160 on average, and a tenth more changes nothing", () => {
    const changes = { replicaConcurrency: 200, scalingTarget: 80 };
    assert.equal(steady(looker(changes), 160, 60), 1);
    assert.equal(steady(looker(changes), 176, 60), 1);
    assert.equal(steady(looker(changes), 178, 60), 2);
    assert.equal(steady(looker(changes), 320, 60), 2);
  });

  test("the mean is over the evaluation interval, and the slots of the moment do not wait for it", () => {
    const changes = { replicaConcurrency: 200, scalingTarget: 50, evaluationIntervalSeconds: 60 };
    assert.equal(steady(looker(changes), 150, 40), 1, "100 of 150 calls on average");
    assert.equal(steady(looker(changes), 150, 45), 2);
    assert.equal(looker(changes)(0, { waiting: 201 }), 2);
  });

  test("after a restart of the platform the mean is one of the time since then", () => {
    const look = looker({ replicaConcurrency: 200, scalingTarget: 50 }, 4);
    for (let second = 0; second <= 15; second++) {
      assert.equal(look(second, { running: 400, runMs: second * 400_000 }), 4, `second ${second}`);
    }
  });

  test("binary fractions do not add a replica", () => {
    assert.equal(steady(looker({ replicaConcurrency: 10, scalingTarget: 30 }), 3, 60), 1);
    assert.equal(steady(looker({ replicaConcurrency: 100, scalingTarget: 7 }), 7, 60), 1);
  });
});

describe("limits and buffer", () => {
  test("an idle app has its minimum, a flooded one its maximum", () => {
    const look = looker({ minReplicaCount: 2 });
    assert.equal(look(0), 2);
    assert.equal(look(1, { waiting: 1000 }), 10);
  });

  test("min 1, buffer 3: idle 1, one call 4, after the cooldown 1", () => {
    const look = looker({ minReplicaCount: 1, scalingBuffer: 3 });
    assert.equal(look(0), 1);
    assert.equal(look(1, { running: 1 }), 4);
    assert.equal(look(2), 4);
    assert.equal(look(13), 1);
  });
});

describe("cooldown", () => {
  test("fewer replicas only after the load was lower for the whole cooldown", () => {
    const look = looker();
    assert.equal(look(0, { running: 4 }), 4);
    assert.equal(look(5, { running: 4 }), 4);
    assert.equal(look(6, { running: 1 }), 4);
    assert.equal(look(15.9, { running: 1 }), 4);
    assert.equal(look(16, { running: 1 }), 1);
  });

  test("the number falls in steps, to the highest load of the last cooldown", () => {
    const look = looker();
    look(0, { running: 8 });
    look(1, { running: 3 });
    look(6, { running: 1 });
    assert.equal(look(10.5, { running: 1 }), 8);
    assert.equal(look(12, { running: 1 }), 3);
    assert.equal(look(16.5, { running: 1 }), 1);
  });

  test("a call that came and went between two looks keeps its replica for a cooldown", () => {
    const look = looker({}, 0);
    look(0);
    assert.equal(look(1, { lastActiveAtMs: 400 }), 1);
    assert.equal(look(2, { lastActiveAtMs: 400 }), 1);
    assert.equal(look(11.9, { lastActiveAtMs: 400 }), 1);
    assert.equal(look(12.5, { lastActiveAtMs: 400 }), 0);
  });

  test("with a cooldown of 0 the load of the moment decides", () => {
    const look = looker({ cooldownPeriodSeconds: 0 });
    assert.equal(look(0, { running: 5 }), 5);
    assert.equal(look(1, { running: 1 }), 1);
  });

  test("a release that takes over from one with a shorter cooldown knows the load of its own", () => {
    const one = { ...settings, cooldownPeriodSeconds: 0 };
    const given = { demand: { ...noDemand, running: 4 }, measured: null, cooldownSecondsMax: 10 };
    const { history } = decide({ ...given, settings: one, history: newHistory(0, 0), nowMs: 0 });
    const later = { ...given, demand: noDemand, nowMs: 5000 };
    const shorter = decide({ ...later, settings: one, history });
    assert.equal(shorter.desired, 0);
    assert.equal(decide({ ...later, settings, history: shorter.history }).desired, 4);
  });

  test("replicas found at the start are kept for one cooldown", () => {
    const look = looker({}, 3);
    assert.equal(look(0), 3);
    assert.equal(look(9.9), 3);
    assert.equal(look(10.5), 0);
  });
});

describe("requests_per_second", () => {
  const rps = {
    scalingMetric: "requests_per_second",
    scalingTarget: 10,
    evaluationIntervalSeconds: 10,
  } as const;

  test("calls per second over the evaluation interval, divided by the target", () => {
    const look = looker({ ...rps, cooldownPeriodSeconds: 0 });
    for (let second = 0; second <= 20; second++)
      look(second, { receivedTotal: second * 45, running: 1 });
    assert.equal(look(21, { receivedTotal: 21 * 45, running: 1 }), 5);
  });

  test("a waiting call asks for one replica, however few calls come", () => {
    assert.equal(looker(rps)(0, { waiting: 1, receivedTotal: 1 }), 1);
  });

  test("calls that wait for a slot ask for slots, whatever the mean is", () => {
    assert.equal(looker(rps)(0, { running: 1, waiting: 4, receivedTotal: 5 }), 5);
  });

  test("an app without calls falls to its minimum after its cooldown, whatever the mean was", () => {
    const look = looker({ ...rps, cooldownPeriodSeconds: 5 });
    for (let second = 0; second <= 10; second++)
      look(second, { receivedTotal: second * 30, running: 1 });
    assert.equal(look(11, { receivedTotal: 300 }), 3);
    assert.equal(look(16, { receivedTotal: 300 }), 0);
  });
});

describe("cpu_utilization and memory_utilization", () => {
  const cpu = {
    scalingMetric: "cpu_utilization",
    scalingTarget: 50,
    minReplicaCount: 1,
    cooldownPeriodSeconds: 0,
  } as const;

  test("as many replicas as bring the use of each to the target", () => {
    const look = looker(cpu, 2);
    assert.equal(look(1, { running: 1 }, { replicas: 2, shares: 1.9 }), 4);
    assert.equal(look(2, { running: 1 }, { replicas: 4, shares: 0.9 }), 2);
    assert.equal(look(3, { running: 1 }, { replicas: 2, shares: 20 }), 10);
  });

  test("near the target nothing changes", () => {
    const look = looker(cpu, 3);
    assert.equal(look(1, { running: 1 }, { replicas: 3, shares: 1.64 }), 3);
    assert.equal(look(2, { running: 1 }, { replicas: 3, shares: 1.36 }), 3);
    assert.equal(look(3, { running: 1 }, { replicas: 3, shares: 1.66 }), 4);
  });

  test("without calls, or before anything was measured, there is the minimum", () => {
    const look = looker({ ...cpu, minReplicaCount: 2 }, 2);
    assert.equal(look(1, { running: 1 }), 2);
    assert.equal(look(2, {}, { replicas: 2, shares: 2 }), 2);
  });
});

test("a steady load never changes the number once it has lasted for the interval and the cooldown", () => {
  const load = fc.record({
    everyMs: fc.integer({ min: 20, max: 1500 }),
    durationMs: fc.integer({ min: 5, max: 20_000 }),
    replicaConcurrency: fc.integer({ min: 1, max: 20 }),
    scalingTarget: fc.integer({ min: 10, max: 100 }),
    scalingBuffer: fc.nat(2),
    scalingMetric: fc.constantFrom("concurrency_utilization", "requests_per_second"),
    cooldownPeriodSeconds: fc.integer({ min: 3, max: 30 }),
    evaluationIntervalSeconds: fc.integer({ min: 30, max: 60 }),
  });
  fc.assert(
    fc.property(load, ({ everyMs, durationMs, ...changes }) => {
      const look = looker({ ...changes, maxReplicaCount: 2000 });
      const settledMs =
        (changes.evaluationIntervalSeconds + changes.cooldownPeriodSeconds + 1) * 1000 + durationMs;
      let settled: number | undefined;
      // At each arrival, as when it finds no slot, and every second.
      const looks = new Set([
        ...range(0, settledMs + 60_000, everyMs),
        ...range(0, settledMs + 60_000, 1000),
      ]);
      for (const atMs of [...looks].toSorted((left, right) => left - right)) {
        const count = look(atMs / 1000, steadyDemand(atMs, everyMs, durationMs));
        if (atMs > settledMs) settled ??= count;
        assert.equal(count, settled ?? count, `at ${atMs} ms`);
      }
    }),
    { numRuns: 60 },
  );
});

function range(from: number, to: number, step: number): number[] {
  return Array.from(
    { length: Math.floor((to - from) / step) + 1 },
    (_, index) => from + index * step,
  );
}

/** A call arrives every `everyMs`, takes `durationMs`, and never waits. */
function steadyDemand(atMs: number, everyMs: number, durationMs: number): Partial<Demand> {
  const receivedTotal = Math.floor(atMs / everyMs) + 1;
  const ended = Math.max(0, Math.floor((atMs - durationMs) / everyMs) + 1);
  const arrivals = (everyMs * (receivedTotal * (receivedTotal - 1))) / 2;
  const endings = (everyMs * (ended * (ended - 1))) / 2 + ended * durationMs;
  const running = receivedTotal - ended;
  return {
    running,
    receivedTotal,
    lastActiveAtMs: atMs,
    runMs: endings + running * atMs - arrivals,
  };
}

test("the number never leaves the limits, never falls below the need of the moment, and its memory is bounded", () => {
  const load = fc.record({
    afterMs: fc.integer({ min: 1, max: 5000 }),
    running: fc.nat(30),
    waiting: fc.nat(30),
  });
  fc.assert(
    fc.property(
      fc.array(load, { maxLength: 200 }),
      fc.integer({ min: 0, max: 60 }),
      (loads, cooldown) => {
        const given = {
          ...settings,
          minReplicaCount: 1,
          cooldownPeriodSeconds: cooldown,
          replicaConcurrency: 3,
        };
        let history = newHistory(0, 0);
        let nowMs = 0;
        for (const { afterMs, running, waiting } of loads) {
          nowMs += afterMs;
          const demand = { ...noDemand, running, waiting };
          const decision = decide({
            settings: given,
            demand,
            measured: null,
            history,
            cooldownSecondsMax: cooldown,
            nowMs,
          });
          history = decision.history;
          const need = Math.min(10, Math.max(1, Math.ceil((running + waiting) / 3)));
          assert.ok(decision.desired >= need && decision.desired <= 10);
          assert.ok(
            history.recommendations.length <= 22,
            "each entry is lower than the one before",
          );
        }
      },
    ),
  );
});
