// The routing table in memory: loaded at the start, refreshed by notifications and on demand, and
// never put back.
import assert from "node:assert/strict";
import { test } from "node:test";
import { sql } from "kysely";
import { systemClock } from "#lib/clock.ts";
import { Routes } from "#apps/routes.ts";
import { newReleaseId, type AppId, type BuildId } from "#lib/ids.ts";
import { createLog, silentLog } from "#lib/log.ts";
import type { Db } from "#store/database.ts";
import { toJson } from "#store/json.ts";
import { notify } from "#store/notify.ts";
import { startManagementApi, type ApiUnderTest } from "./support/management-api.ts";
import { until } from "./support/until.ts";

type Created = { readonly appId: AppId; readonly buildId: BuildId };

async function create(api: ApiUnderTest, name: string, fields: object = {}): Promise<Created> {
  const body = { name, gitRepo: "a/b", ...fields };
  const answer = await api.call("POST", `/v2/projects/${api.projectId}/apps/git`, { body });
  assert.equal(answer.status, 201, JSON.stringify(answer.body));
  return answer.body;
}

let releases = 0;

/** Makes a release of the build take calls; tells nobody unless `tells`. */
async function promote(
  api: ApiUnderTest,
  { appId, buildId }: Created,
  fields: object = {},
  tells = false,
): Promise<string> {
  const releaseId = newReleaseId();
  const { settings } = await api.useCases.apps.get(api.projectId, appId);
  await api.db.transaction().execute(async (tx) => {
    await tx
      .insertInto("releases")
      .values({
        id: releaseId,
        project_id: api.projectId,
        app_id: appId,
        build_id: buildId,
        settings: toJson({ ...settings, ...fields }),
        artifact: toJson({ kind: "x" }),
        number: ++releases,
        cause: "create",
        state: "replaced",
        end_reason: "x",
        ended_at: new Date(),
      })
      .execute();
    await tx
      .updateTable("apps")
      .set({ live_release_id: releaseId })
      .where("id", "=", appId)
      .execute();
    if (tells) await notify(tx, "apps", appId);
  });
  return releaseId;
}

test("all apps are known after the start, and found by project and name", async (t) => {
  const api = await startManagementApi(t);
  const one = await create(api, "one");
  const two = await create(api, "two", { disableAuth: true });
  const releaseId = await promote(api, one, { disableAuth: true, port: 4321 });
  const routes = new Routes({
    clock: systemClock,
    db: api.db,
    notifications: api.notifications,
    log: silentLog,
  });
  t.after(() => routes.stop());
  assert.equal(routes.find(api.projectId, "one"), undefined, "before the start nothing is known");
  await routes.start();
  const found = routes.find(api.projectId, "one");
  assert.equal(found?.live?.releaseId, releaseId);
  assert.equal(found?.live?.buildId, one.buildId);
  assert.equal(found?.live?.settings.port, 4321);
  assert.equal(found?.disableAuth, true);
  assert.equal(routes.byAppId(one.appId), found);
  const waiting = routes.find(api.projectId, "two");
  assert.deepEqual(
    { ...waiting },
    {
      appId: two.appId,
      projectId: api.projectId,
      appName: "two",
      restarts: 0,
      disableAuth: true,
      live: null,
      rollOut: null,
      refusedReleaseId: null,
      latestBuild: { status: "pending", reason: null },
    },
  );
  assert.equal(routes.find("p-00000000", "one"), undefined);
  assert.equal(routes.find(api.projectId, "three"), undefined);
  assert.equal(routes.all().length, 2);
});

test("an app without a release says which pages may read why: by its request, else by its latest build", async (t) => {
  const api = await startManagementApi(t);
  const corsOrigins = ["https://shop.example"];
  const one = await create(api, "one", { corsOrigins });
  const two = await create(api, "two");
  await create(api, "three");
  const settings = toJson({ corsOrigins, corsHeaders: ["X-Of-App"], corsCredentials: true });
  await api.db.updateTable("builds").set({ settings }).where("id", "=", two.buildId).execute();
  const routes = new Routes({
    clock: systemClock,
    db: api.db,
    notifications: api.notifications,
    log: silentLog,
  });
  t.after(() => routes.stop());
  await routes.start();
  const corsOf = (name: string): unknown => routes.find(api.projectId, name)?.cors;
  assert.deepEqual(corsOf("one"), { corsOrigins, corsHeaders: [], corsCredentials: false });
  assert.deepEqual(corsOf("two"), {
    corsOrigins,
    corsHeaders: ["X-Of-App"],
    corsCredentials: true,
  });
  assert.equal(corsOf("three"), undefined);
  await promote(api, one, { corsOrigins });
  await routes.refresh(one.appId);
  assert.equal(corsOf("one"), undefined, "its release says so now");
});

test("new apps, new releases and ends of builds are seen by notification, and listeners are told once", async (t) => {
  const api = await startManagementApi(t);
  const routes = new Routes({
    clock: systemClock,
    db: api.db,
    notifications: api.notifications,
    log: silentLog,
  });
  await routes.start();
  t.after(() => routes.stop());
  const told: string[] = [];
  const end = routes.onChange((appId) => told.push(appId));
  const one = await create(api, "one");
  await until("the app is known", () => routes.find(api.projectId, "one"));
  await promote(api, one, {}, true);
  await until("the release is live", () => routes.find(api.projectId, "one")?.live);
  await api.db.transaction().execute(async (tx) => {
    const changes = { status: "build_failure", reason: "It broke.", ended_at: new Date() } as const;
    await tx.updateTable("builds").set(changes).where("id", "=", one.buildId).execute();
    await notify(tx, "builds", one.buildId);
  });
  await until(
    "the build's end is known",
    () => routes.find(api.projectId, "one")?.latestBuild?.reason === "It broke.",
  );
  const count = told.length;
  await routes.refresh(one.appId);
  assert.equal(told.length, count, "nothing changed, nobody is told");
  assert.deepEqual([...new Set(told)], [one.appId]);
  end();
});

test("after refresh what is committed is what is found, without a notification", async (t) => {
  const api = await startManagementApi(t);
  const routes = new Routes({
    clock: systemClock,
    db: api.db,
    notifications: { listen: () => () => undefined },
    log: silentLog,
  });
  await routes.start();
  t.after(() => routes.stop());
  const one = await create(api, "one");
  assert.equal(routes.find(api.projectId, "one"), undefined);
  await routes.refresh(one.appId);
  assert.equal(routes.find(api.projectId, "one")?.live, null);
  const releaseId = await promote(api, one);
  await routes.refresh(one.appId);
  assert.equal(routes.find(api.projectId, "one")?.live?.releaseId, releaseId);
});

test("what is told while the read of earlier news ends is read, too", async (t) => {
  const api = await startManagementApi(t);
  const one = await create(api, "one");
  const two = await create(api, "two");
  let tell: (payload: string) => void = () => undefined;
  const listen: ConstructorParameters<typeof Routes>[0]["notifications"]["listen"] = (
    channel,
    take,
  ) => {
    if (channel === "apps") tell = take;
    return () => undefined;
  };
  const routes = new Routes({
    clock: systemClock,
    db: api.db,
    notifications: { listen },
    log: silentLog,
  });
  await routes.start();
  t.after(() => routes.stop());
  for (let steps = 0; steps < 30; steps++) {
    await promote(api, one);
    const releaseId = await promote(api, two);
    const stopListening = routes.onChange((appId) => {
      if (appId !== one.appId) return;
      stopListening();
      let step = Promise.resolve();
      for (let count = 0; count < steps; count++) step = step.then(() => undefined);
      void step.then(() => tell(two.appId));
    });
    tell(one.appId);
    await until(
      `the news is read that comes ${steps} steps later`,
      () => routes.byAppId(two.appId)?.live?.releaseId === releaseId,
    );
  }
});

test("an app whose stored settings cannot be read is logged with the field, and all others take calls", async (t) => {
  const api = await startManagementApi(t);
  const one = await create(api, "one");
  const two = await create(api, "two");
  await promote(api, one, { scalingTarget: "much", disableAuth: true });
  await promote(api, two);
  const lines: string[] = [];
  const log = createLog({
    level: "error",
    pretty: false,
    to: { write: (line) => void lines.push(line) },
  });
  const routes = new Routes({
    clock: systemClock,
    db: api.db,
    notifications: { listen: () => () => undefined },
    log,
  });
  t.after(() => routes.stop());
  await routes.start();
  assert.ok(routes.byAppId(two.appId)?.live);
  const route = routes.byAppId(one.appId);
  assert.deepEqual([route?.live, route?.disableAuth], [null, false]);
  const sentence =
    /stored settings cannot be read: scalingTarget is "much" .* Please build it again \(POST/;
  assert.match(route?.unreadable ?? "", sentence);
  await routes.refresh(one.appId);
  assert.equal(lines.length, 1, "once, however often it is read");
  const { appId, reason } = JSON.parse(lines[0] ?? "") as { appId: string; reason: string };
  assert.deepEqual([appId, reason], [one.appId, route?.unreadable]);
  const answer = await api.call("GET", `/v2/projects/${api.projectId}/apps/${one.appId}`);
  assert.equal(answer.status, 422);
  assert.match(answer.body.message, sentence);
  await api.db
    .updateTable("releases")
    .set({ settings: sql`settings || '{"scalingTarget": 50}'` })
    .where("app_id", "=", one.appId)
    .execute();
  await routes.refresh(one.appId);
  assert.equal(routes.byAppId(one.appId)?.live?.settings.scalingTarget, 50);
});

test("a release from before runs could be tried again takes calls", async (t) => {
  const api = await startManagementApi(t);
  const one = await create(api, "one");
  await promote(api, one);
  await api.db
    .updateTable("releases")
    .set({ settings: sql`settings - 'retries'` })
    .execute();
  const routes = new Routes({
    clock: systemClock,
    db: api.db,
    notifications: api.notifications,
    log: silentLog,
  });
  t.after(() => routes.stop());
  await routes.start();
  assert.equal(routes.byAppId(one.appId)?.live?.settings.retries, 0);
});

test("when a notification was lost, all is read again", async (t) => {
  const api = await startManagementApi(t);
  const listeners = new Map<string, (payload: string | null) => void>();
  const notifications = {
    listen(channel: string, run: (payload: string | null) => void) {
      listeners.set(channel, run);
      return () => listeners.delete(channel);
    },
  };
  const routes = new Routes({ clock: systemClock, db: api.db, notifications, log: silentLog });
  await routes.start();
  await create(api, "one");
  await create(api, "two");
  listeners.get("apps")?.(null);
  await until("both are known", () => routes.all().length === 2);
  await routes.stop();
  assert.equal(listeners.size, 0, "nothing listens any more");
});

test("a read that began earlier and ends later does not put back what it saw", async (t) => {
  const api = await startManagementApi(t);
  const gate = Promise.withResolvers<void>();
  let gates: Promise<void>[] = [];
  const held = holding(api.db, () => gates.pop());
  const routes = new Routes({
    clock: systemClock,
    db: held,
    notifications: { listen: () => () => undefined },
    log: silentLog,
  });
  await routes.start();
  const one = await create(api, "one");
  gates = [gate.promise];
  let hasEnded = false;
  const early = routes.refresh(one.appId).then(() => (hasEnded = true));
  await until("the early read is held", () => gates.length === 0);
  const releaseId = await promote(api, one);
  await routes.refresh(one.appId);
  assert.equal(routes.find(api.projectId, "one")?.live?.releaseId, releaseId);
  assert.equal(hasEnded, false);
  gate.resolve();
  await early;
  assert.equal(routes.find(api.projectId, "one")?.live?.releaseId, releaseId);
});

test("a read that began before an app was deleted does not put it back over the new app of its name", async (t) => {
  const api = await startManagementApi(t);
  const gate = Promise.withResolvers<void>();
  let gates: Promise<void>[] = [];
  const held = holding(api.db, () => gates.pop());
  const routes = new Routes({
    clock: systemClock,
    db: held,
    notifications: { listen: () => () => undefined },
    log: silentLog,
  });
  const one = await create(api, "one");
  await routes.start();
  gates = [gate.promise];
  const early = routes.refresh(one.appId);
  await until("the early read is held", () => gates.length === 0);
  const deleted = await api.call("DELETE", `/v2/projects/${api.projectId}/apps/${one.appId}`);
  assert.equal(deleted.status, 200, JSON.stringify(deleted.body));
  await routes.refresh(one.appId);
  assert.equal(routes.find(api.projectId, "one"), undefined);
  await create(api, "one");
  const next = `${one.appId}~2` as AppId;
  await routes.refresh(next);
  gate.resolve();
  await early;
  assert.equal(routes.byAppId(one.appId), undefined);
  assert.equal(routes.find(api.projectId, "one")?.appId, next);
});

test("while the database fails it is tried again until it answers", async (t) => {
  const api = await startManagementApi(t);
  let failures = 0;
  const failing = holding(api.db, () =>
    failures-- > 0 ? Promise.reject(new Error("the database is away")) : undefined,
  );
  const routes = new Routes({
    clock: systemClock,
    db: failing,
    notifications: { listen: () => () => undefined },
    log: silentLog,
  });
  await routes.start();
  t.after(() => routes.stop());
  const one = await create(api, "one");
  failures = 3;
  await routes.refresh(one.appId);
  assert.equal(routes.find(api.projectId, "one"), undefined);
  await until("the app is known after all", () => routes.find(api.projectId, "one"));
  assert.ok(failures <= 0, "it failed three times before");
});

/**
 * The database, where each statement's rows are given out only after what `wait` returned when it
 * began.
 */
function holding(db: Db, wait: () => Promise<void> | undefined): Db {
  const waits = new WeakMap<object, Promise<void>>();
  return db.withPlugin({
    transformQuery({ node, queryId }) {
      const promise = wait();
      // Whoever runs the statement meets a rejection; before that it is not unheard.
      promise?.catch(() => undefined);
      if (promise !== undefined) waits.set(queryId, promise);
      return node;
    },
    async transformResult({ result, queryId }) {
      await waits.get(queryId);
      return result;
    },
  });
}
