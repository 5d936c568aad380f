// Budgets on a real database: what is stopped is stopped for every process, survives restarts, ends
// with the month, and its notices go out by real mail and real posts.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { describe, test, type TestContext } from "node:test";
import { sql } from "kysely";
import { createProject } from "#accounts/projects.ts";
import { budgetNotices } from "#billing/budgets/budget-notices.ts";
import { BudgetUseCases } from "#billing/budgets/budget-use-cases.ts";
import { BudgetWatch } from "#billing/budgets/budget-watch.ts";
import { PlanCache } from "#billing/plans/plan-cache.ts";
import { plansOfNoFile } from "#billing/plans/plan.ts";
import { systemClock, type Clock } from "#lib/clock.ts";
import { appIdOf, type AppId, type ProjectId } from "#lib/ids.ts";
import { silentLog } from "#lib/log.ts";
import { Secret } from "#lib/secret.ts";
import { Mailer } from "#people/mailer.ts";
import type { Db } from "#store/database.ts";
import { toJson } from "#store/json.ts";
import { Notifications, notify } from "#store/notify.ts";
import "#test/support/leftovers.ts";
import { monthClock, spend, thisMonth } from "./budgets-stage.ts";
import { byPlatform } from "./support/accounts.ts";
import { testDatabase } from "./support/database.ts";
import { startMailReceiver } from "./support/mail-receiver.ts";
import { outwardClient } from "./support/outward-bed.ts";
import { makePerson } from "./support/person.ts";
import { until } from "./support/until.ts";
import { startReceiver } from "./support/webhook-receiver.ts";

type Fixture = {
  readonly db: Db;
  readonly projectId: ProjectId;
  readonly appId: AppId;
  readonly watch: BudgetWatch;
  /** Sets a budget of the app that stops at one dollar, but for what is given. */
  set(
    given?: Partial<Parameters<BudgetUseCases["set"]>[1]>,
    appId?: AppId | null,
  ): Promise<unknown>;
  readonly useCases: BudgetUseCases;
  /** The view that another process has. */
  planCache(clock?: Clock): Promise<PlanCache>;
};

const dollar = 1_000_000n;

async function openFixture(
  t: TestContext,
  options: { clock?: Clock; hasMail?: boolean } = {},
): Promise<Fixture> {
  const { db, url } = await testDatabase(t);
  const { clock = monthClock, hasMail = false } = options;
  const ownerId = await makePerson(db, { email: "owner@example.org", name: "Owner" });
  const projectId = await createProject(db, { name: "first", ownerId, by: byPlatform });
  const appId = appIdOf(projectId, "example");
  await db
    .insertInto("apps")
    .values({ id: appId, project_id: projectId, name: "example", request: toJson({}) })
    .execute();
  const parts = { db, clock, log: silentLog, hasMail, onStep: () => undefined };
  const useCases = new BudgetUseCases({ ...parts, checkUrl: () => null });
  const watch = new BudgetWatch(parts);
  watch.loop.start();
  t.after(() => watch.loop.stop());
  return {
    db,
    projectId,
    appId,
    useCases,
    watch,
    set: (given = {}, of = appId) => {
      const wish = {
        amountMicros: dollar,
        warnPercent: [80],
        isStop: true,
        webhookUrl: null,
        ...given,
      };
      return useCases.set({ projectId, appId: of }, wish, byPlatform);
    },
    async planCache(own = clock) {
      const notifications = new Notifications({ clock: systemClock, url, log: silentLog });
      await notifications.start();
      const planCache = new PlanCache({
        db,
        notifications,
        plans: plansOfNoFile,
        clock: own,
        log: silentLog,
      });
      await planCache.start();
      t.after(async () => {
        await planCache.stop();
        await notifications.stop();
      });
      return planCache;
    },
  };
}

const actionsOf = async ({ db }: Fixture): Promise<string[]> =>
  (
    await db
      .selectFrom("audit_log")
      .select("action")
      .where("action", "like", "budget.%")
      .orderBy("id")
      .execute()
  ).map(({ action }) => action);

describe("a budget that is used up", () => {
  test("stops its app on every process, once, and stays so for processes that start later", async (t) => {
    const fixture = await openFixture(t);
    const { db, projectId, appId, watch, useCases } = fixture;
    await fixture.set();
    const others = await Promise.all([fixture.planCache(), fixture.planCache()]);
    const second = new BudgetWatch({
      db,
      clock: monthClock,
      log: silentLog,
      hasMail: false,
      onStep: () => undefined,
    });
    second.loop.start();
    t.after(() => second.loop.stop());
    await spend(db, fixture, { cents: 99 });
    for (const one of [watch, second]) one.posted(projectId);
    await until("it is warned of", async () => (await actionsOf(fixture)).includes("budget.warn"));
    assert.ok(others.every((planCache) => planCache.stopOf(projectId, appId) === null));
    await spend(db, fixture, { cents: 1 });
    for (const one of [watch, second]) one.posted(projectId);
    await until("it is decided", async () => (await actionsOf(fixture)).includes("budget.stop"));
    const stopped = (planCache: PlanCache): boolean =>
      planCache.stopOf(projectId, appId)?.appId === appId;
    await until("every process knows", () => others.every(stopped));
    assert.equal(
      others[0]?.stopOf(projectId, appIdOf(projectId, "other")),
      null,
      "other apps go on",
    );
    assert.ok(stopped(await fixture.planCache()), "a process that starts now knows too");
    assert.deepEqual(
      await actionsOf(fixture),
      ["budget.set", "budget.warn", "budget.stop"],
      "each step was taken once",
    );
    await useCases.delete({ projectId, appId }, byPlatform);
    await until("it is let go", () => others.every((planCache) => !stopped(planCache)));
  });

  test("of the project stops all its apps, and no others", async (t) => {
    const fixture = await openFixture(t);
    const { db, projectId } = fixture;
    await spend(db, fixture, { cents: 100, app: "another" });
    await fixture.set({}, null);
    const planCache = await fixture.planCache();
    for (const name of ["example", "another"]) {
      assert.deepEqual(planCache.stopOf(projectId, appIdOf(projectId, name))?.appId, null, name);
    }
    assert.equal(planCache.stopOf("p-00000000" as ProjectId, "p-00000000-example" as AppId), null);
  });

  test("lets go at the instant at which the next month begins, and says so once", async (t) => {
    let nowMs = Date.UTC(2026, 10, 30, 23, 59, 59, 999);
    const clock: Clock = { ...systemClock, now: () => nowMs };
    const fixture = await openFixture(t, { clock });
    const { db, projectId, appId, watch } = fixture;
    await spend(db, fixture, { cents: 500, month: "2026-11" });
    await fixture.set();
    const planCache = await fixture.planCache();
    assert.equal(planCache.stopOf(projectId, appId)?.period, "2026-11");
    nowMs += 1;
    assert.equal(
      planCache.stopOf(projectId, appId),
      null,
      "without anybody looking at the database",
    );
    watch.posted(projectId);
    await until("it is written down", async () =>
      (await actionsOf(fixture)).includes("budget.resume"),
    );
    await spend(db, fixture, { cents: 50, month: "2026-12" });
    watch.posted(projectId);
    await spend(db, fixture, { cents: 50, month: "2026-12" });
    watch.posted(projectId);
    await until("it stops anew", () => planCache.stopOf(projectId, appId)?.period === "2026-12");
    const [first, ...rest] = await actionsOf(fixture);
    assert.equal(first, "budget.set");
    assert.deepEqual(rest, [
      "budget.warn",
      "budget.stop",
      "budget.resume",
      "budget.warn",
      "budget.stop",
    ]);
  });
});

test("two that set a budget for the first time at once: what the first one stopped goes on when the second one allows more", async (t) => {
  const fixture = await openFixture(t);
  const { db, projectId, appId } = fixture;
  await spend(db, fixture, { cents: 100 });
  const planCache = await fixture.planCache();
  const held = Promise.withResolvers<void>();
  t.after(() => held.resolve());
  // Another process that has set it, and has not committed: it stops at what is spent.
  const inserted = Promise.withResolvers<void>();
  const first = db.transaction().execute(async (tx) => {
    await tx
      .insertInto("budgets")
      .values({
        id: randomUUID(),
        project_id: projectId,
        app_id: appId,
        amount_micros: "1",
        warn_percent: [],
        is_stop: true,
        period: thisMonth,
        stopped_at: new Date(monthClock.now()),
      })
      .execute();
    await notify(tx, "plans", projectId);
    inserted.resolve();
    await held.promise;
  });
  await inserted.promise;
  const second = fixture.set({ amountMicros: 100n * dollar });
  await until("the second one waits", async () => {
    const { rows } = await sql`
      select from pg_locks where not granted
         and pid in (select pid from pg_stat_activity where datname = current_database())`.execute(
      db,
    );
    return rows.length > 0;
  });
  held.resolve();
  await first;
  await second;
  assert.deepEqual(await actionsOf(fixture), ["budget.set", "budget.resume"]);
  await until("it goes on", () => planCache.stopOf(projectId, appId) === null);
});

describe("a notice of a budget", () => {
  test("is mailed to the owners and posted to its URL, each once", async (t) => {
    const mails = await startMailReceiver(t);
    const receiver = await startReceiver(t);
    const fixture = await openFixture(t, { hasMail: true });
    const { db } = fixture;
    await fixture.set({ webhookUrl: receiver.url });
    await spend(db, fixture, { cents: 150 });
    fixture.watch.posted(fixture.projectId);
    const mail = new Mailer({
      url: new Secret(mails.url),
      from: "slipway@example.org",
      clock: systemClock,
      log: silentLog,
    });
    t.after(() => mail.close());
    const client = outwardClient(t);
    const notices = budgetNotices({ db, client, mail, clock: systemClock, log: silentLog });
    await until(
      "notices are stored",
      async () => (await db.selectFrom("budget_notices").selectAll().execute()).length === 4,
    );
    notices.start();
    t.after(() => notices.stop());
    await until(
      "all is sent",
      async () => (await db.selectFrom("budget_notices").selectAll().execute()).length === 0,
    );
    assert.equal(mails.mails.length, 2);
    assert.ok(mails.mails.every(({ to }) => to.join() === "owner@example.org"));
    const texts = mails.mails.map(({ text }) => text.replaceAll(/\s+/g, " ")).toSorted();
    assert.ok(
      texts.some((text) => text.includes("have reached 80 % of the budget of USD 1.00")),
      texts.join(),
    );
    assert.ok(
      texts.some((text) => text.includes("Calls are answered 402, and replicas end")),
      texts.join(),
    );
    const posts = receiver.received.map(
      ({ body }) => JSON.parse(String(body)) as Record<string, unknown>,
    );
    assert.deepEqual(posts.map((post) => post["type"]).toSorted(), ["budget.stop", "budget.warn"]);
    for (const post of posts) {
      assert.deepEqual(
        [post["amount_cents"], post["spent_cents"], post["app_id"]],
        [100, 150, fixture.appId],
      );
    }
  });

  test("that cannot be sent stays, and is tried again later", async (t) => {
    const receiver = await startReceiver(t, () => 500);
    const fixture = await openFixture(t);
    const { db } = fixture;
    await spend(db, fixture, { cents: 150 });
    await fixture.set({ webhookUrl: receiver.url, warnPercent: [] });
    const client = outwardClient(t);
    const notices = budgetNotices({ db, client, mail: null, clock: systemClock, log: silentLog });
    const beganMs = Date.now();
    notices.start();
    t.after(() => notices.stop());
    await until("it was tried", () => receiver.received.length === 1);
    const row = await until("it waits", async () =>
      (await db.selectFrom("budget_notices").selectAll().execute()).find(
        ({ due_at: due, attempts }) => attempts === 1 && due.getTime() < Date.now() + 60_000,
      ),
    );
    assert.ok(row.due_at.getTime() > beganMs + 10_000);
  });
});
