// What a release is made of and how long it can be started again: builds of commits and branches,
// pushes that follow each other, and artifacts that are used again or removed. Real git, real
// artifacts; only the trial is played.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { sql } from "kysely";
import { lockApp } from "#apps/app-store.ts";
import { beginRelease } from "#apps/roll-out-store.ts";
import { platformActor } from "#audit/record.ts";
import type { AppId, ProjectId } from "#lib/ids.ts";
import type { Db } from "#store/database.ts";
import { toJson } from "#store/json.ts";
import type { NewBuild } from "#apps/build-receiver.ts";
import { rebuild, receiveBuild } from "#deploy/receive.ts";
import { buildInState, createApp, playedTrial, startQueue } from "#test/support/build-queue.ts";
import { testDatabase } from "#test/support/database.ts";
import { temporaryFolder } from "#test/support/folder.ts";
import { startGitServer } from "#test/support/git-server.ts";
import { startManagementApi, type Json } from "#test/support/management-api.ts";
import { insertReleases } from "#test/support/release-rows.ts";
import { until } from "#test/support/until.ts";

const by = { type: "person", id: "some-id", name: "Ada" } as const;
const good = { ok: true } as const;

async function stage(t: TestContext) {
  const database = await testDatabase(t);
  const server = await startGitServer(t);
  const folder = temporaryFolder(t, "releases");
  const first = await server.createRepo("acme", "app", { "main.py": "def run(): return 1\n" });
  const app = await createApp(database.db);
  const queue = (given: { trial?: ReturnType<typeof playedTrial>; releasesKept?: number }) =>
    startQueue(t, {
      ...database,
      folder,
      urlTemplate: server.urlTemplate,
      trial: playedTrial(() => good),
      ...given,
    });
  const start = (trial = playedTrial(() => good)) => queue({ trial });
  const receive = (wish: Partial<NewBuild> = {}) =>
    database.db
      .transaction()
      .execute((tx) => receiveBuild(tx, { ...app, cause: "deploy", by, ...wish }));
  const releases = () =>
    database.db
      .selectFrom("releases")
      .selectAll()
      .where("app_id", "=", app.appId)
      .orderBy("number")
      .execute();
  return { ...database, server, folder, first, app, queue, start, receive, releases };
}

test("a commit or the head of a branch is built once, and releases say what they were made of and by whom", async (t) => {
  const { db, server, first, start, receive, releases } = await stage(t);
  const side = await server.push("acme", "app", { "main.py": "def run(): return 2\n" }, "side");
  const head = await server.push("acme", "app", { "main.py": "def run(): return 3\n" });
  await start();
  const wishes = [{}, { branch: "side" }, { commit: first }] as const;
  for (const wish of wishes) await buildInState(db, (await receive(wish)).buildId, ["success"]);
  const facts = {
    cause: "deploy",
    commit_message: "A change",
    commit_author: "Test <test@example.com>",
  };
  const shown = (await releases()).map((release) => ({
    number: release.number,
    commit: release.commit_sha,
    branch: release.branch,
    state: release.state,
    cause: release.cause,
    commit_message: release.commit_message,
    commit_author: release.commit_author,
    by: release.created_by,
    ownBranch: (release.settings as { gitBranch: string }).gitBranch,
  }));
  const common = { ...facts, by, ownBranch: "main" };
  assert.deepEqual(shown, [
    { ...common, number: 1, commit: head, branch: "main", state: "replaced" },
    { ...common, number: 2, commit: side, branch: "side", state: "replaced" },
    { ...common, number: 3, commit: first, branch: null, state: "live" },
  ]);
});

test("a push ends the waiting builds of earlier pushes, a running one when told so, and none that a person asked for", async (t) => {
  const { db, start, receive, releases } = await stage(t);
  const pushed = await receive({ cause: "push" });
  const asked = await receive();
  const next = await receive({ cause: "push", message: "Two\0", author: "Ada" });
  const { row } = await buildInState(db, pushed.buildId, ["cancelled"]);
  assert.equal(row.reason, "Build 3 of a newer commit took its place.");
  const trial = playedTrial(([{ buildId }]) =>
    buildId === next.buildId ? new Promise(() => undefined) : good,
  );
  await start(trial);
  await buildInState(db, asked.buildId, ["success"]);
  await buildInState(db, next.buildId, ["initializing"]);
  const patient = await receive({ cause: "push" });
  const eager = await receive({ cause: "push", isRunningSuperseded: true });
  const running = await buildInState(db, next.buildId, ["cancelled"]);
  assert.equal(running.row.reason, "Build 5 of a newer commit took its place.");
  assert.ok(running.log.includes(running.row.reason));
  assert.equal(
    (await buildInState(db, patient.buildId, ["cancelled"])).row.reason,
    running.row.reason,
  );
  await buildInState(db, eager.buildId, ["success"]);
  const states = (await releases()).map(({ state, end_reason }) => [state, end_reason]);
  const replaced = ["replaced", "A newer release took its place."];
  assert.deepEqual(states, [replaced, ["failed", running.row.reason], ["live", null]]);
});

test("a deploy by hand ends the pause of a rollback before it, once it takes calls", async (t) => {
  const { db, server, start, receive } = await stage(t);
  await start();
  const ended = async (
    wish: Partial<NewBuild>,
    state: "success" | "build_failure",
  ): Promise<unknown> => {
    await buildInState(db, (await receive(wish)).buildId, [state]);
    return (
      await db.selectFrom("apps").select("auto_deploy_paused_reason").executeTakeFirstOrThrow()
    ).auto_deploy_paused_reason;
  };
  const pause = async (seconds: number): Promise<void> =>
    void (await sql`update apps set auto_deploy_paused_reason = 'rolled back',
      auto_deploy_paused_at = clock_timestamp() + make_interval(secs => ${seconds})`.execute(db));
  await pause(0);
  assert.equal(await ended({ branch: "missing" }, "build_failure"), "rolled back");
  assert.equal(await ended({ cause: "push" }, "success"), "rolled back");
  assert.equal(await ended({}, "success"), null);
  await server.push("acme", "app", { "main.py": "def run(): return 2\n" });
  await pause(60);
  assert.equal(
    await ended({}, "success"),
    "rolled back",
    "the rollback came after it was asked for",
  );
});

async function api(t: TestContext, options: Parameters<typeof startManagementApi>[1] = {}) {
  const management = await startManagementApi(t, options);
  const project = `/v2/projects/${management.projectId}`;
  const made = await management.call("POST", `${project}/apps/git`, {
    body: { name: "app", gitRepo: "a/b" },
  });
  const path = `${project}/apps/app`;
  const ask = async (request: string, body?: object): Promise<[number, Json]> => {
    const [method = "", rest = ""] = request.split(" ");
    const answer = await management.call(method, path + rest, body === undefined ? {} : { body });
    return [answer.status, answer.body];
  };
  return { ...management, project, ask, appId: made.body.appId as AppId };
}

test("a rollback takes the release before without a build, and pauses deploys until somebody resumes", async (t) => {
  const { db, ask, appId, call, project } = await api(t);
  await insertReleases(db, appId);
  const pushed = await db.transaction().execute((tx) =>
    receiveBuild(tx, {
      projectId: appId.slice(0, 10) as ProjectId,
      appId,
      cause: "push",
      by: platformActor,
    }),
  );
  const [status, back] = await ask("POST /rollback");
  assert.deepEqual([status, back.number, back.state, back.trafficPercent], [200, 1, "live", 100]);
  const reason = "The app was rolled back from v2 to v1.";
  const { row } = await buildInState(db, pushed.buildId, ["cancelled"]);
  assert.equal(row.reason, reason, "what a push began does not undo the rollback");
  const shown = (one: Json): Json => [
    one.number,
    one.state,
    one.endReason,
    one.trafficPercent,
    one.isStartable,
  ];
  const listed = async (): Promise<Json> => (await ask("GET /releases"))[1].items.map(shown);
  assert.deepEqual(await listed(), [
    [2, "taken_back", reason, 0, true],
    [1, "live", null, 100, true],
  ]);
  const pause = async (): Promise<Json> => {
    const detail = (await ask("GET "))[1];
    const [inList] = (await call("GET", `${project}/apps`)).body;
    assert.equal(inList.autoDeployPausedReason, detail.autoDeployPausedReason);
    assert.equal(inList.autoDeployPausedAt === null, detail.autoDeployPausedReason === null);
    return [detail.liveRelease, detail.autoDeployPausedReason];
  };
  assert.deepEqual(await pause(), [1, reason]);
  assert.equal((await ask("POST /resume-deploys"))[0], 200);
  assert.deepEqual(await pause(), [1, null]);
  assert.match((await ask("POST /resume-deploys"))[1].message, /not paused/);
  assert.equal((await ask("POST /rollback", { release: 2 }))[1].number, 2, "forward again");
  assert.deepEqual(await pause(), [2, "The app was rolled back from v1 to v2."]);
  assert.equal((await ask("POST /resume-deploys"))[0], 200);
  assert.deepEqual(await pause(), [2, null]);
  assert.equal((await ask("GET /releases/v2"))[1].settings.gitRepo, "a/b");
});

test("a rollback of an app without a repository pauses nothing, as nothing is deployed automatically", async (t) => {
  const { db, ask, appId } = await api(t);
  await insertReleases(db, appId);
  await sql`update apps set request = request - 'gitRepo' where id = ${appId}`.execute(db);
  assert.equal((await ask("POST /rollback"))[0], 200);
  const { liveRelease, autoDeployPausedAt, autoDeployPausedReason } = (await ask("GET "))[1];
  assert.deepEqual([liveRelease, autoDeployPausedAt, autoDeployPausedReason], [1, null, null]);
});

test("a rollback to what cannot be started, or beside another one, changes nothing and says why", async (t) => {
  const { db, ask, appId } = await api(t);
  const refused = async (body: object, expected: number, message: RegExp): Promise<void> => {
    const [status, answer] = await ask("POST /rollback", body);
    assert.equal(status, expected, JSON.stringify(answer));
    assert.match(answer.message, message);
  };
  await refused({}, 409, /no live release/);
  await insertReleases(db, appId);
  await refused({ release: 2 }, 409, /v2: it takes the calls already/);
  await refused({ release: 9 }, 404, /no release v9/);
  await refused({ release: 0 }, 400, /release is 0, but must be/);
  await refused({ version: 1 }, 400, /"version" is not a field/);
  await db
    .updateTable("releases")
    .set({ collected_at: new Date(), commit_sha: "abc" })
    .where("number", "=", 1)
    .execute();
  await refused(
    { release: 1 },
    409,
    /no longer kept \(SLIPWAY_RELEASES_KEPT\); build its commit abc instead/,
  );
  await refused({}, 409, /There is no release before v2 to roll back to/);
  await db
    .updateTable("releases")
    .set({ collected_at: null, promoted_at: null })
    .where("number", "=", 1)
    .execute();
  await refused({ release: 1 }, 409, /still starting/);
  await db
    .updateTable("releases")
    .set({ promoted_at: new Date() })
    .where("number", "=", 1)
    .execute();
  // Both are under way before either has the row.
  const { release } = await locked(db, appId);
  const both = [ask("POST /rollback"), ask("POST /rollback")];
  t.after(release);
  await until("both wait for the row", async () => {
    const { rows } = await sql<{ n: number }>`
      select count(distinct pid)::int as n from pg_locks
      where not granted and pid in (select pid from pg_stat_activity where datname = current_database())`.execute(
      db,
    );
    return rows[0]?.n === 2;
  });
  release();
  const statuses = (await Promise.all(both)).map(([status]) => status);
  assert.deepEqual(statuses.sort(), [200, 409]);
  const live = await db
    .selectFrom("releases")
    .select("number")
    .where("state", "=", "live")
    .execute();
  assert.deepEqual(live, [{ number: 1 }]);
});

/** Holds the lock on the app's row until `release`. */
async function locked(db: Db, appId: AppId): Promise<{ release(): void }> {
  const has = Promise.withResolvers<void>();
  const may = Promise.withResolvers<void>();
  const held = db.transaction().execute(async (tx) => {
    await lockApp(tx, appId);
    has.resolve();
    await may.promise;
  });
  await Promise.race([has.promise, held]);
  return { release: may.resolve };
}

test("a rollback to a release whose image was removed is refused, and names what to build", async (t) => {
  const removed = new Set(["made 1"]);
  const { db, ask, appId } = await api(t, {
    isThere: ({ kind }) => Promise.resolve(!removed.has(kind)),
  });
  await insertReleases(db, appId);
  await sql`update releases set artifact = jsonb_build_object('kind', 'made ' || number) where app_id = ${appId}`.execute(
    db,
  );
  for (const body of [undefined, { release: 1 }]) {
    const [status, { message }] = await ask("POST /rollback", body);
    assert.equal(status, 409);
    assert.match(message, /^The app cannot go back to v1: what was built for it was removed/);
  }
  removed.clear();
  assert.equal((await ask("POST /rollback"))[0], 200);
});

test("a rollback while a release is rolled out takes that one back, and shares are shown", async (t) => {
  const { db, ask, appId } = await api(t);
  await insertReleases(db, appId);
  const [older, live] = await db.selectFrom("releases").selectAll().orderBy("number").execute();
  assert.ok(older !== undefined && live !== undefined);
  await db.updateTable("releases").set({ number: 3 }).where("id", "=", older.id).execute();
  await sql`insert into releases (id, project_id, app_id, build_id, number, cause, state, settings, artifact, promoted_at,
      end_reason, ended_at)
    select gen_random_uuid(), project_id, app_id, build_id, 1, cause, state, settings, artifact, promoted_at, end_reason,
      ended_at from releases where number = 3`.execute(db);
  const begin = {
    appId,
    releaseId: older.id,
    liveReleaseId: live.id,
    durationSeconds: 60,
    nowMs: Date.now(),
  };
  await db.transaction().execute((tx) => beginRelease(tx, begin));
  const shares = async (): Promise<Json> =>
    (await ask("GET /releases"))[1].items.map((one: Json) => [
      one.number,
      one.state,
      one.trafficPercent,
    ]);
  const rolling = [
    [3, "rolling_out", 20],
    [2, "live", 80],
    [1, "replaced", 0],
  ];
  assert.deepEqual(await shares(), rolling);
  assert.match(
    (await ask("POST /rollback", { release: 3 }))[1].message,
    /v3: it is being rolled out/,
  );
  const [, back] = await ask("POST /rollback");
  assert.deepEqual([back.number, back.trafficPercent], [2, 100]);
  assert.deepEqual((await shares()).slice(0, 2), [
    [3, "taken_back", 0],
    [2, "live", 100],
  ]);
  assert.equal(
    (await ask("GET "))[1].autoDeployPausedReason,
    "The app was rolled back from v3 to v2.",
  );
});

test("releases are paged newest first, each once", async (t) => {
  const { db, ask, appId } = await api(t);
  await insertReleases(db, appId);
  await sql`insert into releases (id, project_id, app_id, build_id, number, cause, state, settings, artifact, end_reason, ended_at)
    select gen_random_uuid(), project_id, app_id, build_id, n, cause, 'failed', settings, artifact, 'x', now()
    from releases cross join generate_series(3, 7) n where number = 2`.execute(db);
  const seen: number[] = [];
  let next = "";
  do {
    const [status, page] = await ask(
      `GET /releases?pageSize=3${next === "" ? "" : `&nextToken=${next}`}`,
    );
    assert.equal(status, 200);
    seen.push(...page.items.map(({ number }: Json) => number));
    next = page.nextToken ?? "";
  } while (next !== "");
  assert.deepEqual(seen, [7, 6, 5, 4, 3, 2, 1]);
  assert.equal((await ask("GET /releases?nextToken=abc"))[0], 400);
  for (const number of ["8", "0", "v", "x1", "99999999999"])
    assert.equal((await ask(`GET /releases/${number}`))[0], 404);
});

test("the same commit with the same settings uses what was built before, and the log says so", async (t) => {
  const { db, server, app, start, receive, releases } = await stage(t);
  await start();
  const build = async (
    wish: Partial<NewBuild> = {},
  ): Promise<{ readonly appDir: string; readonly isReused: boolean }> => {
    const { row, log } = await buildInState(db, (await receive(wish)).buildId, ["success"]);
    const isReused = log.some((line) =>
      /Nothing changed since build \d+: its result is used again/.test(line),
    );
    return { appDir: (row.artifact as { appDir: string }).appDir, isReused };
  };
  const set = (fields: object): Promise<unknown> =>
    db
      .updateTable("apps")
      .set({ request: toJson({ ...app.request, ...fields }) })
      .execute();
  const made = await build();
  assert.deepEqual(await build(), { appDir: made.appDir, isReused: true });
  await set({ maxReplicaCount: 7 });
  assert.deepEqual(
    await build({ cause: "push" }),
    { appDir: made.appDir, isReused: true },
    "no part of what is built",
  );
  const { number, settings } = (await releases()).at(-1) ?? {};
  assert.deepEqual([number, (settings as { maxReplicaCount: number }).maxReplicaCount], [3, 7]);
  const { row: again } = await buildInState(
    db,
    (
      await db.transaction().execute(async (tx) => {
        const { id } = await tx
          .selectFrom("builds")
          .select("id")
          .where("number", "=", 1)
          .executeTakeFirstOrThrow();
        return await rebuild(tx, { ...app, buildId: id, by });
      })
    ).buildId,
    ["success"],
  );
  assert.notEqual((again.artifact as { appDir: string }).appDir, made.appDir, "a rebuild builds");
  await rm((again.artifact as { appDir: string }).appDir, { recursive: true });
  const anew = await build();
  assert.equal(anew.isReused, false, "somebody has removed what was built");
  assert.ok(existsSync(anew.appDir));
  await set({ runtime: "custom", entrypoint: ["python", "main.py"] });
  assert.equal((await build()).isReused, false);
  await set({});
  await server.push("acme", "app", { "main.py": "def run(): return 2\n" });
  assert.equal((await build()).isReused, false);
});

test("older artifacts are removed while another build goes on, and what a newer release uses again stays", async (t) => {
  const { db, server, folder, first, app, queue, receive, releases } = await stage(t);
  const other = await createApp(db, { projectId: app.projectId, name: "other" });
  const trial = playedTrial(([{ appId }]) =>
    appId === other.appId ? new Promise(() => undefined) : good,
  );
  const before = await queue({ trial, releasesKept: 10 });
  const built = async (wish: Partial<NewBuild> = {}): Promise<string> => {
    const { row } = await buildInState(db, (await receive(wish)).buildId, ["success"]);
    return (row.artifact as { appDir: string }).appDir.split("/").at(-2) ?? "";
  };
  const oldest = await built();
  for (const text of ["# 2", "# 3"]) {
    await server.push("acme", "app", { "main.py": text });
    await built();
  }
  const third = (await releases())[2]?.build_id ?? "";
  assert.equal(await built({ commit: first }), oldest);
  await before.stop();
  const endless = await db
    .transaction()
    .execute((tx) => receiveBuild(tx, { ...other, cause: "deploy", by }));
  await queue({ trial, releasesKept: 2 });
  await buildInState(db, endless.buildId, ["initializing"]);
  const folders = async (): Promise<string[]> =>
    (await readdir(join(folder, "builds"))).filter((name) => name !== "cache").toSorted();
  await until("the second's artifact is gone", async () => (await folders()).length === 3);
  assert.deepEqual(await folders(), [oldest, third, endless.buildId].toSorted());
  const kept = (await releases()).map(({ collected_at }) => collected_at === null);
  assert.deepEqual(kept, [true, false, true, true], "those of one artifact count once");
});
