// Logs of apps on a real database: appending, pages with every filter, tokens, following live,
// retention, and that a large table is read by its indexes.
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { sql } from "kysely";
import { systemClock } from "#lib/clock.ts";
import { VirtualClock } from "./support/virtual-clock.ts";
import { Fault } from "#lib/fault.ts";
import { newReplicaId, newRunId, type ProjectId, type RunId } from "#lib/ids.ts";
import { silentLog } from "#lib/log.ts";
import { removeOld } from "#lib/retention.ts";
import { listAppLines, type AppLinePage } from "#logs/app-log-store.ts";
import { AppLogs } from "#logs/app-log.ts";
import { logRetention } from "#logs/open.ts";
import type { Db } from "#store/database.ts";
import { Notifications } from "#store/notify.ts";
import { asOwner } from "#test/support/as-owner.ts";
import { testDatabase } from "#test/support/database.ts";
import { until } from "#test/support/until.ts";
import { appLine, insertApp, type AppRow } from "./logs-rows.ts";
import { planOf } from "#test/support/statement-plan.ts";

async function open(t: TestContext) {
  const { db, url } = await testDatabase(t);
  const notifications = new Notifications({ clock: systemClock, url, log: silentLog });
  await notifications.start();
  t.after(() => notifications.stop());
  return {
    db,
    logs: new AppLogs({ db, notifications, clock: systemClock }),
    app: await insertApp(db),
  };
}

type Wanted = Parameters<AppLogs["page"]>[1];
const forward: Wanted = { direction: "forward", pageSize: 100 };

async function texts(logs: AppLogs, app: AppRow, wanted: Partial<Wanted> = {}): Promise<string[]> {
  const { items: lines } = await logs.page(app.appId, { ...forward, ...wanted });
  return lines.map(({ text }) => text);
}

/** Every page from the first to the last, each text once if all is well. */
async function allTexts(logs: AppLogs, app: AppRow, wanted: Partial<Wanted>): Promise<string[]> {
  const found: string[] = [];
  let nextToken: string | null = null;
  do {
    const page = await logs.page(app.appId, { ...forward, ...wanted, nextToken });
    found.push(...page.items.map(({ text }) => text));
    nextToken = page.nextToken;
  } while (nextToken !== null);
  return found;
}

test("a line comes back as it was given, once append has resolved", async (t) => {
  const { logs, app } = await open(t);
  const given = appLine(app, {
    runId: newRunId(),
    at: 1_800_000_000_123,
    stream: "stderr",
    text: "ünï 🎈 '\"\\ %s",
  });
  await logs.append([given]);
  const { items: lines, nextToken } = await logs.page(app.appId, forward);
  assert.deepEqual(lines, [{ ...given, id: lines[0]?.id }]);
  assert.equal(nextToken, null);
});

test("an app that prints faster than it may waits, then loses lines, and the logs of others do not; a flush ends the waiting", async (t) => {
  const { db, url } = await testDatabase(t);
  const notifications = new Notifications({ clock: systemClock, url, log: silentLog });
  await notifications.start();
  t.after(() => notifications.stop());
  const pace = {
    linesAtOnce: 10,
    linesPerSecond: 0.01,
    charactersAtOnce: 1000,
    charactersPerSecond: 1000,
  };
  const clock = new VirtualClock();
  const logs = new AppLogs({ db, notifications, clock, limits: [pace] });
  const loud = await insertApp(db);
  const quiet = await insertApp(db);
  await logs.append(Array.from({ length: 10 }, () => appLine(loud)));
  let isStored = false;
  const waiting = logs.append([appLine(loud, { text: "too much" })]).then(() => (isStored = true));
  await logs.append([appLine(quiet, { text: "at once" })]);
  assert.deepEqual(await texts(logs, quiet), ["at once"]);
  assert.equal(isStored, false);
  const more = logs.append(
    Array.from({ length: 100 }, (_, index) => appLine(loud, { text: `more ${index}` })),
  );
  await clock.advance(2_000);
  await Promise.all([waiting, more]);
  const stored = await texts(logs, loud);
  assert.deepEqual(stored.slice(10, 13), [
    "too much",
    "[slipway] 80 lines were left out here: the app prints more than its log may take.",
    "more 80",
  ]);
  assert.deepEqual([stored.length, stored.at(-1)], [32, "more 99"]);
  const long = logs.append(
    Array.from({ length: 5 }, (_, index) => appLine(loud, { text: `${index}`.repeat(10_000) })),
  );
  await clock.advance(2_000);
  await long;
  assert.equal(
    (await texts(logs, loud)).filter((text) => text.length === 10_000).length,
    1,
    "long lines are bounded too",
  );
  const last = logs.append([appLine(loud, { text: "last" })]);
  await logs.flush();
  await last;
  assert.equal((await texts(logs, loud)).at(-1), "last");
});

test("appends of many at once keep the order of each", async (t) => {
  const { logs, app } = await open(t);
  const replicas = Array.from({ length: 5 }, () => newReplicaId("app"));
  const appendAll = async (replicaId: (typeof replicas)[number]): Promise<void> => {
    for (let batch = 0; batch < 30; batch++) {
      await logs.append(
        Array.from({ length: 9 }, (_, index) =>
          appLine(app, { replicaId, text: `${batch * 9 + index}` }),
        ),
      );
    }
  };
  await Promise.all(replicas.map(appendAll));
  for (const container of replicas) {
    const found = await texts(logs, app, { container, pageSize: 1000 });
    assert.deepEqual(
      found,
      Array.from({ length: 270 }, (_, index) => `${index}`),
    );
  }
});

test("more lines than one statement takes are stored all the same", async (t) => {
  const { logs, app } = await open(t);
  await Promise.all(
    [1, 2, 3].map((part) =>
      logs.append(Array.from({ length: 9_000 }, () => appLine(app, { text: `${part}` }))),
    ),
  );
  assert.equal((await texts(logs, app, { pageSize: 50_000 })).length, 27_000);
});

test("a large append is stored in few transactions, and another app's line in the next one", async (t) => {
  const { db, logs, app } = await open(t);
  const quiet = await insertApp(db);
  const release = Promise.withResolvers<void>();
  t.after(() => release.resolve());
  const isLocked = Promise.withResolvers<void>();
  const locking = db.transaction().execute(async (tx) => {
    await sql`lock table app_logs in exclusive mode`.execute(tx);
    isLocked.resolve();
    await release.promise;
  });
  await isLocked.promise;
  const loud = Array.from({ length: 3 }, () =>
    logs.append(Array.from({ length: 5_000 }, () => appLine(app))),
  );
  const one = logs.append([appLine(quiet)]);
  release.resolve();
  await Promise.all([locking, one, ...loud]);
  const { rows } = await sql<{ apps: string[]; lines: number }>`
    select array_agg(distinct app_id) apps, count(*)::int lines from app_logs
     group by xmin::text order by min(id)`.execute(db);
  assert.ok(rows.length <= 10, `${rows.length} transactions`);
  assert.equal(
    rows.findIndex(({ apps }) => apps.includes(quiet.appId)),
    1,
  );
});

test("what cannot be stored as it is does not fail the batch it is in", async (t) => {
  const { logs, app } = await open(t);
  await logs.append([
    appLine(app, { text: "a\0b\udc00" }),
    appLine(app, { text: "c", runId: "not a run" as RunId }),
    appLine(app, { text: "" }),
  ]);
  const { items: lines } = await logs.page(app.appId, forward);
  assert.deepEqual(
    lines.map(({ text, runId }) => [text, runId]),
    [
      ["ab\ufffd", null],
      ["c", null],
      ["", null],
    ],
  );
});

test("lines are in the order of their time, whenever they were stored", async (t) => {
  const { logs, app } = await open(t);
  for (const at of [30, 10, 20, 10]) await logs.append([appLine(app, { at, text: `${at}` })]);
  assert.deepEqual(await texts(logs, app), ["10", "10", "20", "30"]);
  assert.deepEqual(await texts(logs, app, { direction: "backward" }), ["30", "20", "10", "10"]);
});

test("pages in either direction hold each line once, also when all have the same time", async (t) => {
  const { logs, app } = await open(t);
  await logs.append(
    Array.from({ length: 23 }, (_, index) =>
      appLine(app, { text: `${index}`, at: index < 12 ? 5 : 6 }),
    ),
  );
  const all = Array.from({ length: 23 }, (_, index) => `${index}`);
  for (const pageSize of [1, 5, 22, 23, 24]) {
    assert.deepEqual(await allTexts(logs, app, { pageSize }), all);
    assert.deepEqual(
      await allTexts(logs, app, { pageSize, direction: "backward" }),
      all.toReversed(),
    );
  }
});

test("each filter leaves exactly what it says, alone and together", async (t) => {
  const { logs, app } = await open(t);
  const runId = newRunId();
  const container = newReplicaId("app");
  await logs.append([
    appLine(app, { text: "Plain", at: 1000 }),
    appLine(app, { text: "of run", at: 2000, runId }),
    appLine(app, { text: "on stderr 100%", at: 3000, stream: "stderr" }),
    appLine(app, { text: "elsewhere_run", at: 4000, replicaId: container, runId }),
  ]);
  assert.deepEqual(await texts(logs, app, { runId }), ["of run", "elsewhere_run"]);
  assert.deepEqual(await texts(logs, app, { container }), ["elsewhere_run"]);
  assert.deepEqual(await texts(logs, app, { stream: "stderr" }), ["on stderr 100%"]);
  assert.deepEqual(await texts(logs, app, { afterDate: 2000, beforeDate: 4000 }), [
    "of run",
    "on stderr 100%",
  ]);
  assert.deepEqual(await texts(logs, app, { search: "PLAIN" }), ["Plain"]);
  assert.deepEqual(await texts(logs, app, { search: "0%" }), ["on stderr 100%"]);
  assert.deepEqual(await texts(logs, app, { search: "_" }), ["elsewhere_run"]);
  assert.deepEqual(await texts(logs, app, { runId, container, search: "run", stream: "stdout" }), [
    "elsewhere_run",
  ]);
  assert.deepEqual(await texts(logs, app, { afterDate: 0, beforeDate: 0 }), []);
});

test("an app's lines are never another app's", async (t) => {
  const { db, logs, app } = await open(t);
  const other = await insertApp(db);
  const runId = newRunId();
  await logs.append([
    appLine(app, { text: "mine", runId }),
    appLine(other, { text: "theirs", runId }),
  ]);
  assert.deepEqual(await texts(logs, app, { runId }), ["mine"]);
  assert.deepEqual(await texts(logs, other, { container: app.replicaId }), []);
});

test("a token that is altered, or used with other parameters, is refused", async (t) => {
  const { logs, app } = await open(t);
  await logs.append(Array.from({ length: 5 }, () => appLine(app)));
  const { nextToken } = await logs.page(app.appId, { ...forward, pageSize: 2 });
  assert.match(nextToken ?? "", /^[\w-]{1,40}$/);
  const token = nextToken ?? "";
  const bad: Partial<Wanted>[] = [
    { nextToken: `${token.slice(0, -1)}${token.endsWith("A") ? "B" : "A"}` },
    { nextToken: token.replace(/^./, (first) => (first === "1" ? "2" : "1")) },
    { nextToken: "x" },
    { nextToken: token, direction: "backward" },
    { nextToken: token, stream: "stdout" },
    { nextToken: token, search: "h" },
  ];
  for (const wanted of bad) {
    await assert.rejects(
      logs.page(app.appId, { ...forward, ...wanted }),
      (error) =>
        error instanceof Fault &&
        error.code === "invalid" &&
        error.message.startsWith("nextToken does not belong to this query"),
    );
  }
  const rest = await logs.page(app.appId, { ...forward, pageSize: 3, nextToken: token });
  assert.equal(rest.items.length, 3);
});

test("a follower gets what is stored from now on, filtered, until it is aborted", async (t) => {
  const { logs, app } = await open(t);
  await logs.append([appLine(app, { text: "before" })]);
  const stop = new AbortController();
  const seen: string[] = [];
  const following = (async () => {
    const filter = { stream: "stdout" as const };
    const { items: lines } = await logs.page(app.appId, forward);
    for await (const page of logs.follow(app.appId, {
      after: lines.at(-1)?.id ?? 0,
      filter,
      signal: stop.signal,
    })) {
      seen.push(...page.map(({ text }) => text));
    }
  })();
  void logs.append([appLine(app, { text: "no", stream: "stderr" }), appLine(app, { text: "one" })]);
  await until("the first is seen", () => seen.length === 1);
  // Older by its own time than what was seen: following goes by the order of storing.
  await logs.append([appLine(app, { text: "late", at: 5 })]);
  await until("the late one is seen", () => seen.length === 2);
  stop.abort();
  await following;
  assert.deepEqual(seen, ["one", "late"]);
});

test("retention removes lines that are too old, in steps, and no others", async (t) => {
  const { db, logs, app } = await open(t);
  const dayMs = 86_400_000;
  const now = systemClock.now();
  await logs.append(
    Array.from({ length: 5_500 }, () => appLine(app, { at: now - 31 * dayMs, text: "old" })),
  );
  await logs.append([appLine(app, { at: now - 29 * dayMs, text: "kept" })]);
  await removeOld(
    logRetention({ db, clock: systemClock, days: 30, daysOf: () => null }),
    new AbortController().signal,
  );
  assert.deepEqual(await texts(logs, app), ["kept"]);
});

test("retention keeps lines each for the days of its project, where these differ", async (t) => {
  const { db, logs, app } = await open(t);
  const other = await insertApp(db);
  const dayMs = 86_400_000;
  const now = systemClock.now();
  for (const one of [app, other]) {
    for (const days of [3, 8])
      await logs.append([appLine(one, { at: now - days * dayMs, text: `${days} days` })]);
  }
  const daysOf = () => (projectId: ProjectId) => (projectId === app.projectId ? 7 : 30);
  const options = { db, clock: systemClock, days: 1, daysOf };
  await removeOld(logRetention(options), new AbortController().signal);
  assert.deepEqual(
    [await texts(logs, app), await texts(logs, other)],
    [["3 days"], ["8 days", "3 days"]],
  );
});

test("a table of many lines is read by its indexes, page by page", async (t) => {
  const { db, app } = await open(t);
  const other = await insertApp(db);
  await fill(db, app, other);
  const cases: [string, Partial<Wanted>, RegExp][] = [
    ["the newest lines", { direction: "backward" }, /app_logs_by_app/],
    ["a page in the middle", {}, /app_logs_by_app/],
    [
      "a range of time",
      { afterDate: 1_800_000_050_000, beforeDate: 1_800_000_051_000 },
      /app_logs_by_app/,
    ],
    ["one replica", { container: app.replicaId }, /app_logs_by_(replica|app)/],
    ["one run", { runId: "00000000-0000-4000-8000-000000000001" as RunId }, /app_logs_by_run/],
  ];
  for (const [what, wanted, index] of cases) {
    const from = what.includes("middle") ? { at: 1_800_000_030_000, id: 60_000 } : null;
    const { plan, rowsRead } = await explain(db, app, { ...forward, ...wanted, from, limit: 101 });
    assert.match(plan, index, `${what}: ${plan}`);
    assert.doesNotMatch(plan, /Seq Scan/, `${what}: ${plan}`);
    assert.ok(rowsRead < 2_500, `${what} reads ${rowsRead} rows: ${plan}`);
  }
});

/** 120 000 lines of two apps in turns, one a millisecond. */
async function fill(db: Db, app: AppRow, other: AppRow): Promise<void> {
  await sql`
    insert into app_logs (project_id, app_id, replica_id, run_id, at, stream, line)
    select ${app.projectId}, case when n % 2 = 0 then ${app.appId} else ${other.appId} end,
      case when n % 1000 = 0 then ${app.replicaId} else 'app-other' end,
      case when n % 5000 = 0 then '00000000-0000-4000-8000-000000000001'::uuid end,
      to_timestamp(1800000000 + n / 1000.0), 'stdout', 'line ' || n
    from generate_series(1, 120000) n`.execute(db);
  await asOwner(db, (tx) => sql`analyze app_logs`.execute(tx));
}

/**
 * The plan of the very statement that a page runs, and how many rows its steps gave on or threw
 * away.
 */
async function explain(
  db: Db,
  app: AppRow,
  wanted: AppLinePage,
): Promise<{ plan: string; rowsRead: number }> {
  const steps = await planOf(db, (through) => listAppLines(through, app.appId, wanted));
  const rowsRead = steps
    .map((step) => Number(step["Actual Rows"]) + Number(step["Rows Removed by Filter"] ?? 0))
    .reduce((sum, count) => sum + count, 0);
  return { plan: JSON.stringify(steps[0]), rowsRead };
}
