// The log of builds on a real database: numbering, cleaning, pages, takeover, following live,
// retention.
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { systemClock, type Clock } from "#lib/clock.ts";
import { newBuildId } from "#lib/ids.ts";
import { silentLog } from "#lib/log.ts";
import { removeOld } from "#lib/retention.ts";
import { BuildLogs } from "#logs/build-log.ts";
import { logRetention } from "#logs/open.ts";
import { Notifications } from "#store/notify.ts";
import { testDatabase } from "#test/support/database.ts";
import { until } from "#test/support/until.ts";
import { VirtualClock } from "#test/support/virtual-clock.ts";
import { buildLines, endBuild, insertApp, insertBuild } from "./logs-rows.ts";

const lineLengthMax = 65_536;

async function open(t: TestContext) {
  const { db, url } = await testDatabase(t);
  const notifications = new Notifications({ clock: systemClock, url, log: silentLog });
  await notifications.start();
  t.after(() => notifications.stop());
  const make = (clock: Clock = systemClock) =>
    new BuildLogs({ db, notifications, clock, log: silentLog });
  const app = await insertApp(db);
  return { db, make, logs: make(), app, buildId: await insertBuild(db, app) };
}

const endless = new AbortController().signal;

test("lines are numbered from 1 without gaps, in the order they were given", async (t) => {
  const { logs, buildId } = await open(t);
  for (let from = 1; from <= 1201; from += 3) void logs.append(buildId, buildLines(3, from));
  await logs.flush();
  const { lines, hasMore } = await logs.page(buildId, { after: 0, limit: 5000 });
  assert.equal(lines.length, 1203);
  assert.equal(hasMore, false);
  for (const [index, { number, line }] of lines.entries()) {
    assert.equal(number, index + 1);
    assert.equal(line, `line ${index + 1}`);
  }
});

test("a line comes back as it was given, with its time, stage and stream", async (t) => {
  const { logs, buildId } = await open(t);
  const given = {
    at: 1_800_000_000_123,
    stage: "source",
    stream: "stderr" as const,
    line: "ünïcödé 🎈 'quoted' {\"a\":1}",
  };
  await logs.append(buildId, [given]);
  assert.deepEqual((await logs.page(buildId, { after: 0, limit: 10 })).lines, [
    { ...given, number: 1 },
  ]);
});

test("append resolves only when the lines can be read", async (t) => {
  const { logs, buildId } = await open(t);
  await logs.append(buildId, buildLines(2));
  assert.equal((await logs.page(buildId, { after: 0, limit: 10 })).lines.length, 2);
});

test("pages of any size put together are the whole log", async (t) => {
  const { logs, buildId } = await open(t);
  await logs.append(buildId, buildLines(25));
  const numbers: number[] = [];
  for (let after = 0, more = true; more;) {
    const page = await logs.page(buildId, { after, limit: 10 });
    assert.ok(page.lines.length <= 10);
    numbers.push(...page.lines.map(({ number }) => number));
    after = numbers.at(-1) ?? 0;
    more = page.hasMore;
  }
  assert.deepEqual(
    numbers,
    Array.from({ length: 25 }, (_, index) => index + 1),
  );
});

test("after a takeover the numbers go on", async (t) => {
  const { logs, make, buildId } = await open(t);
  await logs.append(buildId, buildLines(3));
  const second = make();
  await second.append(buildId, buildLines(2, 4));
  const { lines } = await second.page(buildId, { after: 0, limit: 10 });
  assert.deepEqual(
    lines.map(({ line }) => line),
    ["line 1", "line 2", "line 3", "line 4", "line 5"],
  );
  assert.deepEqual(
    lines.map(({ number }) => number),
    [1, 2, 3, 4, 5],
  );
});

test("NUL, half characters and endless lines do not keep a line from being stored", async (t) => {
  const { logs, buildId } = await open(t);
  const line = { at: 0, stage: "code", stream: "stdout" as const, line: "" };
  await logs.append(buildId, [
    { ...line, line: "a\0b\ud800c" },
    { ...line, line: "x".repeat(lineLengthMax * 2) },
  ]);
  const { lines } = await logs.page(buildId, { after: 0, limit: 10 });
  assert.equal(lines[0]?.line, "ab\ufffdc");
  assert.equal(lines[1]?.line.length, lineLengthMax);
  assert.match(lines[1]?.line ?? "", /x … \(cut\)$/);
});

test("lines of a build that does not exist are left out without harm to others", async (t) => {
  const { logs, buildId } = await open(t);
  await Promise.all([
    logs.append(newBuildId(), buildLines(2)),
    logs.append(buildId, buildLines(2)),
  ]);
  assert.equal((await logs.page(buildId, { after: 0, limit: 10 })).lines.length, 2);
});

test("of what finds no room the newest lines are kept, and the log says how many are missing", async (t) => {
  const { logs, buildId } = await open(t);
  // 500 are being written at once, the others fill the queue.
  void logs.append(buildId, buildLines(20_500));
  for (let count = 0; count < 207; count++)
    void logs.append(buildId, buildLines(1, 30_000 + count));
  await logs.flush();
  await logs.append(buildId, buildLines(1, 40_000));
  const stored = (await logs.page(buildId, { after: 20_499, limit: 300 })).lines;
  const lines = [...stored.slice(0, 3), ...stored.slice(-2)];
  assert.deepEqual(
    lines.map(({ line }) => line),
    [
      "line 20500",
      "7 lines are missing here: they could not be stored fast enough.",
      "line 30007",
      "line 30206",
      "line 40000",
    ],
  );
});

test("lines that were lost stay counted when the next write fails too, and the end says so", async (t) => {
  const { db, logs, app } = await open(t);
  const buildId = newBuildId();
  // The database refuses lines of a build that it does not have.
  await logs.append(buildId, buildLines(3));
  await logs.append(buildId, buildLines(2));
  await insertBuild(db, app, 2, buildId);
  await logs.flush();
  assert.deepEqual(
    (await logs.page(buildId, { after: 0, limit: 10 })).lines.map(({ line }) => line),
    ["5 lines are missing here: they could not be stored fast enough."],
  );
});

test("a follower gets every line once and ends with the build", async (t) => {
  const { db, logs, make, buildId } = await open(t);
  await logs.append(buildId, buildLines(3));
  const seen: number[] = [];
  const following = (async () => {
    for await (const lines of make().follow(buildId, { after: 1, signal: endless }))
      seen.push(...lines.map((l) => l.number));
  })();
  await until("the stored lines are seen", () => seen.length === 2);
  void logs.append(buildId, buildLines(600, 4));
  await until("new lines are seen", () => seen.length === 602);
  void logs.append(buildId, buildLines(1, 604));
  await logs.flush();
  await endBuild(db, buildId);
  await following;
  assert.deepEqual(
    seen,
    Array.from({ length: 603 }, (_, index) => index + 2),
  );
});

test("a follower is woken by the notification of a line, without its poll", async (t) => {
  const { logs, make, buildId } = await open(t);
  const stop = new AbortController();
  // On a clock that stands still it never polls.
  const follower = make(new VirtualClock()).follow(buildId, { after: 0, signal: stop.signal });
  await logs.append(buildId, buildLines(1));
  assert.equal((await follower.next()).done, false);
  let isSeen = false;
  const second = follower.next().then(({ done }) => (isSeen = done === false));
  await logs.append(buildId, buildLines(1, 2));
  await until("the second line is seen", () => isSeen);
  await second;
  stop.abort();
  assert.equal((await follower.next()).done, true);
});

test("a follower that is aborted ends while it waits", async (t) => {
  const { logs, buildId } = await open(t);
  const stop = new AbortController();
  const next = logs.follow(buildId, { after: 0, signal: stop.signal }).next();
  stop.abort();
  assert.equal((await next).done, true);
});

test("following a build that has ended, or never was, gives what there is and ends", async (t) => {
  const { db, logs, buildId } = await open(t);
  await logs.append(buildId, buildLines(2));
  await endBuild(db, buildId);
  const pages = await Array.fromAsync(logs.follow(buildId, { after: 0, signal: endless }));
  assert.equal(pages.flat().length, 2);
  assert.deepEqual(
    await Array.fromAsync(logs.follow(newBuildId(), { after: 0, signal: endless })),
    [],
  );
});

test("retention removes the lines of builds that ended too long ago and keeps the others", async (t) => {
  const { db, logs, app, buildId } = await open(t);
  const dayMs = 86_400_000;
  const recent = await insertBuild(db, app, 2);
  const running = await insertBuild(db, app, 3);
  for (const id of [buildId, recent, running]) await logs.append(id, buildLines(3));
  await endBuild(db, buildId, new Date(systemClock.now() - 8 * dayMs));
  await endBuild(db, recent, new Date(systemClock.now() - 6 * dayMs));
  await removeOld(logRetention({ db, clock: systemClock, days: 7, daysOf: () => null }), endless);
  const left = await Promise.all(
    [buildId, recent, running].map((id) => logs.page(id, { after: 0, limit: 9 })),
  );
  assert.deepEqual(
    left.map(({ lines }) => lines.length),
    [0, 3, 3],
  );
});
