// Admission, held to its promises by long random stories: calls come, end, give up, time passes,
// replicas come and go.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import type { LoadBalancingAlgorithm } from "@slipway/contract/app-choices.ts";
import { loadBalancingAlgorithms } from "@slipway/contract/app-choices.ts";
import type { Fault } from "#lib/fault.ts";
import {
  appIdOf,
  newRunId,
  type BuildId,
  type ProjectId,
  type ReleaseId,
  type ReplicaId,
} from "#lib/ids.ts";
import { ReplicaView, type ReadyReplica, type StartFailure } from "#scheduler/replica-view.ts";
import { settingsWith } from "#test/support/app-settings.ts";
import { VirtualClock } from "#test/support/virtual-clock.ts";
import { AdmittedCall, type Live } from "./admitted-call.ts";
import { AppCalls } from "./app-calls.ts";
import { Deadlines } from "./deadlines.ts";
import { CallTimes, CallMeter } from "./call-meter.ts";
import type { ReplicaSlot } from "./replica-slot.ts";

const appId = appIdOf("p-00000001" as ProjectId, "story");
const releaseId = "release" as ReleaseId;

class StoryCall extends AdmittedCall {
  override readonly about = {
    runId: newRunId(),
    projectId: "p-00000001" as ProjectId,
    appId,
    method: "GET",
    path: "/",
    rootPath: "",
    lines: "",
    clientAddress: "127.0.0.1",
    webhookEndpoint: null,
    isWebSocket: false,
  };
  began: ReplicaSlot[] = [];
  refusals: Fault[] = [];
  onTimeUp: (call: StoryCall) => void = () => undefined;

  override begin(slot: ReplicaSlot): void {
    assert.equal(this.refusals.length, 0, "a refused call began");
    this.began.push(slot);
  }

  override refuse(fault: Fault): void {
    this.refusals.push(fault);
  }

  override onDeadline(): void {
    this.onTimeUp(this);
  }
}

type Stage = ReturnType<typeof openStage>;

function openStage(options: { algorithm?: LoadBalancingAlgorithm; lineLengthMax?: number } = {}) {
  const { algorithm = "first-available", lineLengthMax = 5 } = options;
  const clock = new VirtualClock();
  const view = new ReplicaView();
  const deadlines = new Deadlines(clock);
  const slots = new Map<ReplicaId, ReplicaSlot>();
  const meter = new CallMeter(appId, new CallTimes());
  let nudges = 0;
  const settings = settingsWith({
    loadBalancingAlgorithm: algorithm,
    responseGracePeriodSeconds: 30,
    deploymentInitializationTimeout: 60,
  });
  const live: Live = { releaseId, buildId: "build" as BuildId, settings };
  const app = new AppCalls(meter, {
    deadlines,
    slots,
    replicas: view,
    readBuffer: Buffer.alloc(1),
    limits: { lineLengthMax },
    nudge: () => nudges++,
    monotonicMs: () => clock.monotonicMs(),
    random: () => 0.3,
  });
  view.onChange(() => app.refresh());
  const shown: ReadyReplica[] = [];
  const show = (failure?: StartFailure): void => view.put(appId, { ready: shown, failure });
  return {
    app,
    clock,
    meter,
    slots,
    deadlines,
    nudges: () => nudges,
    add(name: string, concurrency: number): void {
      const replica = {
        replicaId: name as ReplicaId,
        appId,
        releaseId,
        address: { host: "x", port: 1 },
        concurrency,
      };
      shown.push(Object.freeze(replica));
      show();
    },
    remove(name: string): void {
      const index = shown.findIndex((replica) => replica.replicaId === name);
      if (index !== -1) shown.splice(index, 1);
      show();
    },
    fail(failure: StartFailure): void {
      show(failure);
    },
    retire(name: string): void {
      const slot = slots.get(name as ReplicaId);
      if (slot !== undefined) app.retire(slot);
    },
    /** A call enters; `fault` is what it was told at once. */
    enter(): { call: StoryCall; fault: Fault | null } {
      const call = new StoryCall(clock.monotonicMs(), live);
      return { call, fault: app.enter(call) };
    },
  };
}

test("with room a call begins at once, without it waits in order of arrival", () => {
  const stage = openStage();
  stage.add("a", 1);
  const calls = [1, 2, 3].map(() => stage.enter().call);
  assert.deepEqual(
    calls.map((call) => call.began.length),
    [1, 0, 0],
  );
  assert.equal(stage.meter.waiting, 2);
  const [first, second, third] = calls as [StoryCall, StoryCall, StoryCall];
  stage.app.leave(first, stage.clock.monotonicMs());
  assert.deepEqual([second.began.length, third.began.length], [1, 0]);
  stage.add("b", 1);
  assert.equal(third.began.length, 1);
  assert.equal(stage.meter.waiting, 0);
});

test("the scheduler is told at once of each call that has to wait", () => {
  const stage = openStage();
  stage.enter();
  assert.equal(stage.nudges(), 1);
  stage.enter();
  assert.equal(stage.nudges(), 2);
});

test("the scheduler is told once when random-choice-2 gives a replica more calls than it should have", () => {
  const stage = openStage({ algorithm: "random-choice-2" });
  stage.add("a", 2);
  for (let count = 0; count < 5; count++) stage.enter();
  assert.deepEqual([stage.meter.running, stage.nudges()], [5, 1]);
});

test("the time that calls have run is known at every moment, without what they waited", async () => {
  const stage = openStage();
  stage.add("a", 1);
  const { call } = stage.enter();
  stage.enter();
  await stage.clock.advance(300);
  assert.equal(stage.meter.runMs(stage.clock.monotonicMs()), 300);
  stage.app.leave(call, stage.clock.monotonicMs());
  await stage.clock.advance(50);
  assert.equal(stage.meter.runMs(stage.clock.monotonicMs()), 350);
});

test("one more call than the line holds is refused, with a time to come back", () => {
  const stage = openStage({ lineLengthMax: 2 });
  assert.deepEqual(
    [1, 2, 3].map(() => stage.enter().fault?.code ?? null),
    [null, null, "line_full"],
  );
  assert.ok((stage.enter().fault?.retryAfterSeconds ?? 0) > 0);
});

test("when no replica can be started, those who wait and those who come are told why", () => {
  const stage = openStage();
  const { call } = stage.enter();
  stage.fail({ kind: "start_failed", reason: "no module named torch", retryAtMs: 4_100 });
  assert.deepEqual(
    call.refusals.map(({ code, message, retryAfterSeconds }) => [code, message, retryAfterSeconds]),
    [["start_failed", "no module named torch", 5]],
  );
  assert.equal(stage.enter().fault?.code, "start_failed");
  stage.add("a", 1);
  assert.equal(stage.enter().fault, null);
});

test("a failed start does not refuse calls that a ready replica will take", () => {
  const stage = openStage();
  stage.add("a", 1);
  stage.enter();
  const { call, fault } = stage.enter();
  stage.fail({ kind: "start_failed", reason: "of another replica", retryAtMs: null });
  assert.equal(fault, null);
  assert.deepEqual(call.refusals, []);
});

test("time in the line does not count against the time of the call", async () => {
  const stage = openStage();
  stage.add("a", 1);
  const first = stage.enter().call;
  const { call } = stage.enter();
  const lateAtMs: number[] = [];
  call.onTimeUp = () => lateAtMs.push(stage.clock.monotonicMs());
  await stage.clock.advance(25_000);
  stage.app.leave(first, stage.clock.monotonicMs());
  await stage.clock.advance(29_000);
  assert.deepEqual(lateAtMs, [], "30 s from the beginning, not from the arrival");
  await stage.clock.advance(2_000);
  assert.equal(lateAtMs.length, 1);
  assert.equal(call.lineMs, 25_000);
});

test("the line has a time of its own", async () => {
  const stage = openStage();
  const { call } = stage.enter();
  let isLate = false;
  call.onTimeUp = () => (isLate = call.isInLine);
  await stage.clock.advance(59_900);
  assert.equal(isLate, false);
  await stage.clock.advance(300);
  assert.equal(isLate, true);
});

test("a retired replica gets no call, works on what it has, and the scheduler is told when that has ended", () => {
  const stage = openStage();
  stage.add("a", 2);
  const { call } = stage.enter();
  stage.retire("a");
  const waiting = stage.enter().call;
  assert.equal(waiting.began.length, 0);
  assert.equal(stage.slots.get("a" as ReplicaId)?.running, 1);
  const before = stage.nudges();
  stage.app.leave(call, stage.clock.monotonicMs());
  assert.ok(stage.nudges() > before);
  stage.add("b", 1);
  assert.deepEqual(
    waiting.began.map((slot) => slot.replica.replicaId),
    ["b"],
  );
});

test("a replica that was retired before its first call gets none", () => {
  const stage = openStage();
  stage.add("a", 1);
  stage.retire("a");
  stage.add("b", 1);
  assert.equal(stage.enter().call.began[0]?.replica.replicaId, "b");
  assert.equal(stage.enter().call.began.length, 0);
});

test("nothing is kept of replicas that are gone", () => {
  const stage = openStage();
  for (const name of ["a", "b", "c"]) stage.add(name, 1);
  const { call } = stage.enter();
  stage.retire("b");
  for (const name of ["a", "b", "c"]) stage.remove(name);
  assert.deepEqual([...stage.slots.keys()], ["a"]);
  stage.app.leave(call, stage.clock.monotonicMs());
  assert.equal(stage.slots.size, 0);
  assert.ok(stage.app.isIdle);
});

type Step =
  | { readonly kind: "enter" }
  | { readonly kind: "leave" | "retire" | "remove" | "hold" | "let go"; readonly which: number }
  | { readonly kind: "add"; readonly concurrency: number };

const stepArbitrary: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: fc.constant({ kind: "enter" as const }) },
  { weight: 5, arbitrary: fc.record({ kind: fc.constant("leave" as const), which: fc.nat() }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant("add" as const),
      concurrency: fc.integer({ min: 1, max: 3 }),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constantFrom("retire" as const, "remove" as const),
      which: fc.nat(),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constantFrom("hold" as const, "let go" as const),
      which: fc.nat(),
    }),
  },
);

/** A call that an earlier process sent to the replica of the name. */
type Held = { readonly name: string; readonly letGo: () => void };

type Story = {
  readonly stage: Stage;
  readonly calls: readonly StoryCall[];
  readonly held: readonly Held[];
  readonly open: ReadonlySet<string>;
  readonly isCapped: boolean;
};

/** What must hold between any two steps. */
function checkPromises({ stage, calls, held, open, isCapped }: Story): void {
  const slots = [...stage.slots.values()];
  const hasFreeSlot = slots.some(
    (slot) => open.has(slot.replica.replicaId) && slot.running < slot.concurrency,
  );
  const waiting = calls.filter((call) => call.isInLine);
  assert.ok(!(hasFreeSlot && waiting.length > 0), "a call waits although a replica has room");
  for (const slot of slots) {
    const holders = calls.filter((call) => call.slot === slot).length;
    const heldCount = held.filter(({ name }) => name === slot.replica.replicaId).length;
    assert.equal(slot.running, holders + heldCount, "each place is held by one call");
    if (isCapped && heldCount === 0)
      assert.ok(slot.running <= slot.concurrency, "a replica has more calls than it may");
  }
  assert.equal(stage.meter.waiting, waiting.length);
  assert.equal(
    stage.meter.running,
    calls.filter((call) => call.slot !== null).length + held.length,
  );
  const firstWaiting = calls.findIndex((call) => call.isInLine);
  const overtakers =
    firstWaiting === -1 ? [] : calls.slice(firstWaiting).filter((call) => call.began.length > 0);
  assert.equal(overtakers.length, 0, "a call overtook one that came before");
  assert.equal(stage.deadlines.size, stage.meter.waiting + stage.meter.running - held.length);
}

test("in every story: no call waits while a replica has room, none is lost, every place is given back once", () => {
  fc.assert(
    fc.property(
      fc.constantFrom(...loadBalancingAlgorithms),
      fc.array(stepArbitrary, { maxLength: 120 }),
      (algorithm, steps) => {
        const stage = openStage({ algorithm, lineLengthMax: 4 });
        const calls: StoryCall[] = [];
        const held: Held[] = [];
        const open = new Set<string>();
        const present: string[] = [];
        for (const step of steps) {
          const living = calls.filter((call) => call.slot !== null || call.isInLine);
          const name =
            "which" in step ? present[step.which % Math.max(1, present.length)] : undefined;
          if (step.kind === "enter") {
            const { call, fault } = stage.enter();
            if (fault === null) calls.push(call);
          } else if (step.kind === "leave") {
            const call = living[step.which % Math.max(1, living.length)];
            if (call !== undefined) stage.app.leave(call, stage.clock.monotonicMs());
          } else if (step.kind === "hold") {
            // One of those that are or were there, or the one that comes next.
            const heldOn = `replica-${step.which % (present.length + 1)}`;
            held.push({ name: heldOn, letGo: stage.app.hold(heldOn as ReplicaId) });
          } else if (step.kind === "let go") {
            held.splice(step.which % Math.max(1, held.length), 1)[0]?.letGo();
          } else if (step.kind === "add") {
            const added = `replica-${present.length}`;
            present.push(added);
            open.add(added);
            stage.add(added, step.concurrency);
          } else if (name !== undefined) {
            open.delete(name);
            if (step.kind === "retire") stage.retire(name);
            else stage.remove(name);
          }
          checkPromises({ stage, calls, held, open, isCapped: algorithm !== "random-choice-2" });
        }
        for (const { letGo } of held) letGo();
        for (const call of calls)
          if (call.slot !== null || call.isInLine) stage.app.leave(call, stage.clock.monotonicMs());
        assert.equal(stage.meter.running + stage.meter.waiting + stage.deadlines.size, 0);
      },
    ),
    { numRuns: 300 },
  );
});
