// The driver that lives in memory keeps what real drivers keep, so that tests on it say something
// about them.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { cutLines } from "#drivers/log-lines.ts";
import { systemClock } from "#lib/clock.ts";
import {
  conformance,
  type Behaviour,
  type ConformanceFixture,
} from "#test/support/driver-conformance.ts";
import {
  FakeDriver,
  goodScript,
  type FakeDriverOptions,
  type StartScript,
} from "#test/support/fake-driver.ts";
import { replicaSpec } from "#test/support/replica-spec.ts";

function scriptOf(behaviour: Behaviour): StartScript {
  switch (behaviour.kind) {
    case "serves":
      return { ...goodScript, lines: behaviour.lines ?? [] };
    case "ignores_stop":
      return { ...goodScript, isStubborn: true };
    case "exits": {
      const reading = { isCutting: false, isEnd: true, hasFrames: false };
      const lines = cutLines(behaviour.output, reading).lines.map(({ text }) => text);
      return {
        ...goodScript,
        readyMs: null,
        lines,
        exit: { afterMs: 1, exitCode: behaviour.exitCode },
      };
    }
    case "refused":
      return { ...goodScript, refusal: { kind: "refused", reason: "There is no room." } };
  }
}

function suite(
  name: string,
  change: Partial<StartScript>,
  options: Partial<FakeDriverOptions> = {},
): void {
  const makeFixture = (): Promise<ConformanceFixture> => {
    const scripts = new Map<string, StartScript>();
    const script: FakeDriverOptions["script"] = ({ replicaId }) => ({
      ...goodScript,
      ...scripts.get(replicaId),
    });
    const driver = new FakeDriver({ clock: systemClock, script, ...options });
    const reason = "The memory does not answer.";
    return Promise.resolve({
      driver: () => driver,
      spec: (behaviour) => {
        const spec = replicaSpec({ artifact: { kind: "fake" } });
        scripts.set(spec.replicaId, { ...scriptOf(behaviour), ...change });
        return spec;
      },
      isReady: (address) => Promise.resolve(driver.answers(address)),
      remains: async () => (await driver.list()).map(({ replicaId }) => replicaId),
      conditions: {
        pending: {
          spec: () => {
            const spec = replicaSpec({ artifact: { kind: "fake" } });
            scripts.set(spec.replicaId, { ...goodScript, ...change, pendingMs: null });
            return spec;
          },
          proceed: (replicaId) => driver.proceed(replicaId),
        },
        outage: {
          begin: () => (driver.currentOutage = { sinceMs: systemClock.monotonicMs(), reason }),
          end: () => (driver.currentOutage = null),
        },
      },
      close: () => Promise.resolve(),
    });
  };
  conformance(name, makeFixture, ["pending", "outage"]);
}

suite("fake", {});
suite("fake (slow, pending)", { createMs: 5, pendingMs: 10 });
suite("fake (lossy)", {}, { keepsLines: false });

describe("what a driver says of its room", () => {
  const spec = replicaSpec({ artifact: { kind: "fake" }, compute: "HOPPER_H100" });
  const live = new AbortController().signal;

  test("a type that is in use is refused as such, and can be had when there is room again", async () => {
    const driver = new FakeDriver({ clock: systemClock, compute: ["CPU", "HOPPER_H100"] });
    driver.full.add("HOPPER_H100");
    assert.deepEqual(
      [driver.pools.capacity(spec, []), driver.pools.capacity({ ...spec, compute: "TPU" }, [])],
      ["later", "never"],
    );
    await assert.rejects(driver.start(spec, live), { name: "StartRefused", kind: "no_capacity" });
    driver.full.clear();
    await driver.start(spec, live);
    assert.equal((await driver.list())[0]?.state, "running");
  });
});
