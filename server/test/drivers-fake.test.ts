// The driver that lives in memory keeps what real drivers keep, so that tests on it say something about them.
import "#test/support/leftovers.ts";
import { conformance, type Behaviour } from "#drivers/conformance.ts";
import type { ReplicaSpec } from "#drivers/driver.ts";
import { FakeDriver, fakeDefaults, FakeGround, type FakeScript } from "#drivers/fake.ts";
import { cutLines } from "#drivers/process/log-lines.ts";
import { systemClock } from "#lib/clock.ts";
import { replicaSpec } from "#test/support/replica-spec.ts";

function scriptOf(behaviour: Behaviour): FakeScript {
  switch (behaviour.kind) {
    case "serves":
      return { ...fakeDefaults, lines: behaviour.lines ?? [] };
    case "ignores_stop":
      return { ...fakeDefaults, stopMs: null };
    case "exits": {
      const reading = { isCutting: false, isEnd: true, hasFrames: false };
      const lines = cutLines(behaviour.output, reading).lines.map(({ text }) => text);
      const reason = `The app ended with exit code ${behaviour.exitCode}.`;
      return { ...fakeDefaults, readyMs: null, lines, exit: { afterMs: 1, exitCode: behaviour.exitCode, reason } };
    }
    case "refused":
      return { ...fakeDefaults, refusal: "There is no room." };
  }
}

conformance("fake", () => {
  const ground = new FakeGround();
  const scripts = new Map<string, FakeScript>();
  return Promise.resolve({
    driver: () =>
      new FakeDriver({
        clock: systemClock,
        ground,
        script: (spec: ReplicaSpec) => scripts.get(spec.replicaId) ?? fakeDefaults,
      }),
    spec: (behaviour) => {
      const spec = replicaSpec({ artifact: { kind: "fake" } });
      scripts.set(spec.replicaId, scriptOf(behaviour));
      return spec;
    },
    remains: () => Promise.resolve([...ground.replicas.keys()]),
    close: () => Promise.resolve(),
  });
});
