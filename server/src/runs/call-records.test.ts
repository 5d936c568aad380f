// Records of calls, on a clock that stands still and a database that is played: batches, bounds,
// what is left out.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { pino } from "pino";
import type { AppId, ProjectId, ReleaseId, ReplicaId, RunId } from "#lib/ids.ts";
import type { CallOutcome, FinishedCall } from "#proxy/finished-call.ts";
import { VirtualClock } from "#test/support/virtual-clock.ts";
import { callRecordOf, stateOf, type CallRecord } from "./call-record.ts";
import { CallRecords } from "./call-records.ts";
import type { LeftOutCalls } from "./left-out.ts";

function callOf(wish: Partial<FinishedCall> = {}): FinishedCall {
  return {
    runId: "r" as RunId,
    appId: "p-1-app" as AppId,
    projectId: "p-1" as ProjectId,
    releaseId: "x" as ReleaseId,
    replicaId: null,
    method: "GET",
    path: "/a",
    isWebSocket: false,
    clientAddress: "::1",
    outcome: "answered",
    status: 200,
    receivedAt: 1_000,
    lineMs: 1,
    totalMs: 30,
    begunAt: 1_001,
    reason: null,
    isReasonOfApp: false,
    requestBytes: 0,
    answerBytes: 0,
    webhookEndpoint: null,
    ...wish,
  };
}

function stage(
  options: {
    perSecondMax?: number;
    successesPerMinute?: number;
    failures?: number;
    leftOutFailures?: number;
  } = {},
) {
  const clock = new VirtualClock();
  const written: (readonly CallRecord[])[] = [];
  const logged: Record<string, unknown>[] = [];
  let failures = options.failures ?? 0;
  const write = async (records: readonly CallRecord[]): Promise<void> => {
    await Promise.resolve();
    if (failures-- > 0) throw new Error("the database is away");
    written.push(records);
  };
  const log = pino(
    {},
    { write: (line: string) => logged.push(JSON.parse(line) as Record<string, unknown>) },
  );
  const { perSecondMax = 2_000, successesPerMinute = Infinity } = options;
  const successesOf = (): number => successesPerMinute;
  const counts = new Map<string, LeftOutCalls>();
  let leftOutFailures = options.leftOutFailures ?? 0;
  const writeLeftOut = async (rows: readonly LeftOutCalls[]): Promise<void> => {
    await Promise.resolve();
    for (const row of rows) counts.set(row.id, row);
    // As when the connection breaks after the commit.
    if (leftOutFailures-- > 0) throw new Error("the database is away");
  };
  const records = new CallRecords({
    write,
    writeLeftOut,
    clock,
    log,
    perSecondMax,
    successesOf,
    whyBrokenOff: () => Promise.resolve(null),
  });
  const leftOut = (): number[] => [...counts.values()].map(({ calls }) => calls);
  const recover = (): void => void (failures = 0);
  return { clock, written, records, leftOut, counts, logged, recover };
}

test("a call that broke off has the reason of the app, else of its replica's end, else the platform's", async () => {
  const clock = new VirtualClock();
  const written: CallRecord[] = [];
  const asked: unknown[] = [];
  const records = new CallRecords({
    write: (given) => Promise.resolve(void written.push(...given)),
    writeLeftOut: () => Promise.resolve(),
    whyBrokenOff: (call) => {
      asked.push(call);
      const end = { reason: "The app ended with exit code 3.", reasonForCaller: "" };
      return Promise.resolve(call.replicaId === "gone" ? end : null);
    },
    successesOf: () => Infinity,
    clock,
    log: pino({ enabled: false }),
  });
  const broken = { outcome: "cut", reason: "It broke off." } as const;
  const gone = "gone" as ReplicaId;
  const alive = "alive" as ReplicaId;
  records.onFinished(callOf({ ...broken, replicaId: gone, isReasonOfApp: true }));
  records.onFinished(callOf({ ...broken, replicaId: gone }));
  records.onFinished(callOf({ ...broken, replicaId: alive }));
  records.onFinished(
    callOf({ outcome: "refused", status: 503, reason: "No replica runs.", replicaId: gone }),
  );
  await clock.advance(1_000);
  await records.stop();
  assert.deepEqual(written.map(({ reason }) => reason).toSorted(), [
    "It broke off.",
    "It broke off.",
    "The app ended with exit code 3.",
    null,
  ]);
  assert.deepEqual(
    asked,
    [gone, alive].map((replicaId) => ({ replicaId, runId: "r", sinceMs: 1_001 })),
  );
});

const apps = (count: number): AppId[] =>
  Array.from({ length: count }, (_, index) => `p-1-app${index}` as AppId);

describe("the record of a call", () => {
  test("has the state that the caller would name", () => {
    const cases: readonly (readonly [CallOutcome, number | null, string])[] = [
      ["answered", 200, "success"],
      ["answered", 101, "success"],
      ["answered", 304, "success"],
      ["answered", 404, "failure"],
      ["answered", 504, "failure"],
      ["refused", 504, "timeout"],
      ["refused", 503, "failure"],
      ["client_gone", null, "cancelled"],
      ["client_gone", 200, "cancelled"],
      ["cut", 200, "failure"],
    ];
    for (const [outcome, status, state] of cases)
      assert.equal(stateOf({ outcome, status }), state, `${outcome} ${status}`);
  });

  test("ends when the call ended, and holds no text that the database refuses", () => {
    const record = callRecordOf(
      callOf({ path: `/a\0\ud800${"x".repeat(5_000)}`, receivedAt: 5_000, totalMs: 70 }),
    );
    assert.equal(record.endedAt, 5_070);
    assert.match(record.path, /^\/a\ufffdx{1996}$/);
  });
});

describe("records of calls", () => {
  test("are gathered for a moment and written together", async () => {
    const { clock, records, written } = stage();
    for (let count = 0; count < 30; count++) records.onFinished(callOf());
    await clock.advance(100);
    records.onFinished(callOf());
    assert.equal(written.length, 0);
    await clock.advance(101);
    assert.deepEqual(
      written.map((batch) => batch.length),
      [31],
    );
    await clock.advance(60_000);
    assert.equal(written.length, 1, "nothing is written twice, and nothing empty");
  });

  test("are written at once when there are many, a thousand at a time", async () => {
    const { clock, records, written } = stage({ perSecondMax: 100_000 });
    for (let count = 0; count < 2_500; count++) records.onFinished(callOf());
    await clock.advance(0);
    await records.stop();
    assert.deepEqual(
      written.map((batch) => batch.length),
      [1_000, 1_000, 500],
    );
  });

  test("are a sample of the successful calls of each app and minute, and all that failed; the rest is counted", async () => {
    const { clock, records, written, leftOut } = stage({ successesPerMinute: 3 });
    for (let count = 0; count < 10; count++) records.onFinished(callOf());
    for (let count = 0; count < 10; count++) records.onFinished(callOf({ status: 500 }));
    records.onFinished(callOf({ outcome: "client_gone" }));
    records.onFinished(callOf({ appId: "p-1-other" as AppId }));
    await clock.advance(300);
    const states = Map.groupBy(written.flat(), ({ state }) => state);
    assert.deepEqual(
      [
        states.get("success")?.length,
        states.get("failure")?.length,
        states.get("cancelled")?.length,
      ],
      [4, 10, 1],
    );
    await clock.advance(60_000);
    assert.deepEqual(leftOut(), [7]);
    records.onFinished(callOf());
    await clock.advance(300);
    assert.equal(written.flat().length, 16, "the next minute begins anew");
  });

  test("of successful calls are none where the project's plan says so, and failed ones are there", async () => {
    const { clock, records, written, leftOut } = stage({ successesPerMinute: 0 });
    records.onFinished(callOf());
    records.onFinished(callOf({ status: 500 }));
    await clock.advance(60_000);
    assert.deepEqual([written.flat().map(({ state }) => state), leftOut()], [["failure"], [1]]);
  });

  test("are bounded per second, half of it for one app; the rest is counted by app and written soon", async () => {
    const { clock, records, written, leftOut, counts, logged } = stage({ perSecondMax: 100 });
    for (let count = 0; count < 80; count++) records.onFinished(callOf());
    for (const appId of apps(70)) records.onFinished(callOf({ appId }));
    await clock.advance(300);
    const byFirst = written.flat().filter((record) => record.appId === "p-1-app").length;
    assert.deepEqual([written.flat().length, byFirst], [100, 50]);
    await clock.advance(800);
    records.onFinished(callOf());
    await clock.advance(300);
    assert.equal(written.flat().length, 101, "the next second begins anew");
    assert.deepEqual(leftOut(), []);
    await clock.advance(5_000);
    assert.equal(leftOut()[0], 30, "of the app that took its half");
    assert.equal(
      leftOut().reduce((sum, calls) => sum + calls, 0),
      50,
    );
    const [first] = counts.values();
    assert.deepEqual([first?.appId, first?.projectId, first?.latestAt], ["p-1-app", "p-1", 1_000]);
    await clock.advance(600_000);
    assert.equal(counts.size, 21, "nothing new to tell");
    assert.ok(logged.some((line) => line["leftOut"] === 50));
  });

  test("wait while the database is away, as long as there is room", async () => {
    const { clock, records, written, leftOut } = stage({ perSecondMax: 1_000_000, failures: 3 });
    for (let count = 0; count < 1_000; count++) records.onFinished(callOf());
    await clock.advance(0);
    for (let count = 0; count < 11_000; count++) records.onFinished(callOf());
    await clock.advance(20_000);
    assert.equal(
      written.flat().length,
      11_000,
      "10,000 that waited, and 1,000 that were being written",
    );
    await clock.advance(60_000);
    assert.deepEqual(leftOut(), [1_000]);
  });

  test("that cannot be written at all are given up, and those after them are written", async () => {
    const { clock, records, written, leftOut, recover } = stage({
      failures: Number.POSITIVE_INFINITY,
    });
    records.onFinished(callOf());
    await clock.advance(60_000);
    recover();
    records.onFinished(callOf());
    await clock.advance(61_000);
    assert.equal(written.flat().length, 1);
    assert.deepEqual(leftOut(), [1]);
  });

  test("that are left out are counted once, also when word of the write is lost", async () => {
    const { clock, records, leftOut } = stage({ perSecondMax: 2, leftOutFailures: 8 });
    for (let count = 0; count < 11; count++) records.onFinished(callOf());
    await clock.advance(6_000);
    for (let count = 0; count < 4; count++) records.onFinished(callOf());
    await clock.advance(60_000);
    assert.deepEqual(leftOut(), [10, 3]);
  });

  test("are written at the stop without waiting for repeats, and what was left out is told", async () => {
    const { records, written, leftOut } = stage({ failures: 1 });
    records.onFinished(callOf());
    await records.stop();
    assert.deepEqual([written.length, leftOut()], [0, [1]]);
    records.onFinished(callOf());
    await records.stop();
    assert.equal(written.flat().length, 1);
    await records.stop();
  });
});
