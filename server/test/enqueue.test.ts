// Accepting async calls on a real database while it is slow: how many large bodies are held, how
// many connections calls with an Idempotency-Key take, and that one project leaves room to another.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import type { AppRoute } from "#apps/routes.ts";
import { systemClock } from "#lib/clock.ts";
import type { Fault } from "#lib/fault.ts";
import { newRunId, type AppId, type ProjectId, type RunId } from "#lib/ids.ts";
import { silentLog } from "#lib/log.ts";
import { Sealer } from "#lib/seal.ts";
import type { AsyncCall } from "#proxy/async-accept.ts";
import { Enqueue } from "#runs/enqueue.ts";
import { RunStore } from "#runs/run-store.ts";
import { settingsWith } from "#test/support/app-settings.ts";
import { testDatabase } from "#test/support/database.ts";
import { until } from "#test/support/until.ts";

type Stage = {
  readonly enqueue: Enqueue;
  /** Lets what is being stored go on. */
  readonly open: () => void;
  readonly count: { readers: number; storing: number };
  readonly accepted: RunId[];
  readonly refused: Fault[];
};

/** Nothing is stored before `open()`. */
async function stage(t: TestContext): Promise<Stage> {
  const { db } = await testDatabase(t);
  const store = new RunStore({ db, holder: "ours", leaseMs: 60_000 });
  const gate = Promise.withResolvers<void>();
  const count = { readers: 0, storing: 0 };
  const insert: RunStore["insert"] = async (runs, tx) => {
    count.storing++;
    await gate.promise;
    await store.insert(runs, tx);
    count.storing--;
  };
  const runner = { reserve: () => false, unreserve: ignore, take: ignore, nudge: ignore };
  const enqueue = new Enqueue({
    db,
    runner,
    clock: systemClock,
    log: silentLog,
    onStep: ignore,
    bodyBytesMax: 1_000_000,
    storeRefusal: () => null,
    ownerKeyOf: (projectId) => Promise.resolve(projectId.replace(/1\d$/, "1")),
    store: Object.assign(Object.create(store) as RunStore, { insert }),
    sealer: new Sealer(["0".repeat(64)]),
  });
  t.after(() => enqueue.stop());
  return { enqueue, open: () => gate.resolve(), count, accepted: [], refused: [] };
}

function ignore(): void {
  // Nobody works on these runs.
}

/** Projects with numbers from 10 to 19 have one owner: see `ownerKeyOf` above. */
function come(on: Stage, projectId: string, bytes: number, key: string | null = null): void {
  const live = { releaseId: "00000000-0000-4000-8000-000000000001", settings: settingsWith({}) };
  const ids = { projectId: projectId as ProjectId, appId: `${projectId}-app` as AppId };
  const call: AsyncCall = {
    runId: newRunId(),
    method: "POST",
    path: "/",
    lines: "",
    clientAddress: "127.0.0.1",
    retries: null,
    route: { ...ids, live } as unknown as AppRoute,
    webhookEndpoint: null,
    webhookSecret: null,
    idempotencyKey: key,
    contentLength: bytes,
    readBody: () => {
      on.count.readers++;
      return Promise.resolve(Buffer.alloc(bytes, 1));
    },
    accepted: (runId) => on.accepted.push(runId),
    refuse: (fault) => on.refused.push(fault),
  };
  on.enqueue.accept(call);
}

test("large bodies are held until they are stored, a few of each project; the others come later", async (t) => {
  const on = await stage(t);
  for (let index = 0; index < 40; index++) come(on, "p-00000001", 100_000);
  for (let index = 0; index < 10; index++) come(on, "p-00000002", 100_000);
  await until("something is being stored", () => on.count.storing > 0);
  assert.equal(
    on.count.readers,
    12,
    "8 of the first project, and half of what was left for the second",
  );
  on.open();
  await until("all are accepted", () => on.accepted.length === 50);
  assert.deepEqual(on.refused, []);
});

test("however many projects a person owns, they leave places to others", async (t) => {
  const on = await stage(t);
  for (let index = 0; index < 40; index++) come(on, `p-0000001${index % 10}`, 100_000);
  for (let index = 0; index < 40; index++) come(on, `p-0000001${index % 10}`, 10, `key-${index}`);
  await until("something is being stored", () => on.count.storing >= 3);
  come(on, "p-00000020", 100_000);
  come(on, "p-00000020", 10, "key");
  await until("another's are stored", () => on.count.storing >= 5);
  on.open();
  await until("all are accepted", () => on.accepted.length === 82);
  assert.deepEqual(on.refused, []);
});

test("calls with an Idempotency-Key take a part of the connections, and all are accepted", async (t) => {
  const on = await stage(t);
  for (let index = 0; index < 40; index++) come(on, "p-00000001", 10, `key-${index}`);
  for (let index = 0; index < 40; index++) come(on, "p-00000002", 10, `key-${index}`);
  await until("some are being stored", () => on.count.storing >= 4);
  assert.ok(on.count.storing <= 6, String(on.count.storing));
  on.open();
  await until("all are accepted", () => on.accepted.length === 80);
  assert.deepEqual(on.refused, []);
});
