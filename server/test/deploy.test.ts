// From a requested build to a release that takes traffic, and every way in which that can fail or
// be ended.
import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { sql } from "kysely";
import { Routes } from "#apps/routes.ts";
import { platformActor } from "#audit/record.ts";
import { requestCancel } from "#deploy/end-builds.ts";
import { rebuild } from "#deploy/receive.ts";
import type { TrialStarter } from "#deploy/trial.ts";
import type { Artifact } from "#drivers/driver.ts";
import { processArtifact } from "#drivers/process/artifact.ts";
import { systemClock, type Clock } from "#lib/clock.ts";
import { Fault } from "#lib/fault.ts";
import type { AppId } from "#lib/ids.ts";
import { silentLog } from "#lib/log.ts";
import type { Secret } from "#lib/secret.ts";
import type { Db } from "#store/database.ts";
import { Notifications } from "#store/notify.ts";
import { drawTests } from "#test/support/drawn-cases.ts";
import {
  buildInState,
  createApp,
  playedTrial,
  requestBuild,
  startQueue,
} from "#test/support/build-queue.ts";
import { testDatabase } from "#test/support/database.ts";
import { temporaryFolder } from "#test/support/folder.ts";
import { startGitServer, type GitServerOptions } from "#test/support/git-server.ts";
import { pipVersion } from "#test/support/give-pip.ts";
import { isAlive } from "#test/support/is-alive.ts";
import { until } from "#test/support/until.ts";

const test = drawTests({ what: "fates of builds", count: 12, max: 5 });

const good = { ok: true } as const;

async function open(
  t: TestContext,
  given: {
    trial?: TrialStarter;
    git?: GitServerOptions;
    buildsAtOnce?: number;
    buildTimeoutMs?: number;
    clock?: Clock;
  } = {},
) {
  const database = await testDatabase(t);
  const folder = temporaryFolder(t, "deploy");
  const server = await startGitServer(t, given.git);
  const refreshed: AppId[] = [];
  const { clock = systemClock } = given;
  const parts = { ...database, folder, urlTemplate: server.urlTemplate, refreshed, clock };
  const start = (
    trial: TrialStarter = given.trial ?? playedTrial(() => good),
    buildsAtOnce = given.buildsAtOnce ?? 2,
  ) =>
    startQueue(t, {
      ...parts,
      trial,
      buildsAtOnce,
      buildTimeoutMs: given.buildTimeoutMs ?? 60_000,
    });
  return { ...database, folder, server, refreshed, parts, start };
}

async function openRoutes(t: TestContext, { db, url }: { db: Db; url: Secret }): Promise<Routes> {
  const notifications = new Notifications({ clock: systemClock, url, log: silentLog });
  await notifications.start();
  t.after(() => notifications.stop());
  const routes = new Routes({ clock: systemClock, db, notifications, log: silentLog });
  await routes.start();
  t.after(() => routes.stop());
  return routes;
}

async function leftovers(folder: string): Promise<string[]> {
  const sources = await readdir(join(folder, "sources")).catch(() => []);
  const builds = await readdir(join(folder, "builds")).catch(() => []);
  return [...sources, ...builds].filter(
    (name) => !["known-hosts", "checkouts"].includes(name) && name !== "cache",
  );
}

test("a build goes from the branch's head to a live release, and says each step", async (t) => {
  const trial = playedTrial(([release, { onLine }]) => {
    onLine({
      replicaId: "r" as never,
      at: 0,
      stream: "stdout",
      runId: null,
      text: `hello from ${release.settings.name}`,
    });
    return good;
  });
  const { db, server, start, refreshed } = await open(t, { trial });
  const commit = await server.createRepo("acme", "app", { "main.py": "def run(): return 1\n" });
  const app = await createApp(db);
  const { buildId, number, status } = await requestBuild(db, app);
  assert.deepEqual([number, status], [1, "pending"]);
  await start();
  const { row, log } = await buildInState(db, buildId, ["success"]);
  assert.equal(row.commit_sha, commit);
  assert.equal(row.reason, null);
  assert.ok(row.started_at !== null && row.ended_at !== null && row.lease_holder === null);
  assert.equal((row.settings as { gitRepo: string }).gitRepo, "acme/app");
  const release = await db
    .selectFrom("releases")
    .selectAll()
    .where("build_id", "=", buildId)
    .executeTakeFirstOrThrow();
  assert.ok(release.promoted_at !== null);
  const { live_release_id } = await db
    .selectFrom("apps")
    .select("live_release_id")
    .executeTakeFirstOrThrow();
  assert.equal(live_release_id, release.id);
  assert.deepEqual(refreshed, [app.appId]);
  const artifact = processArtifact(release.artifact as Artifact);
  assert.equal(await readFile(join(artifact.appDir, "main.py"), "utf8"), "def run(): return 1\n");
  const audit = await db
    .selectFrom("audit_log")
    .select(["action", "actor_type", "resource_id"])
    .execute();
  assert.deepEqual(audit, [
    { action: "app.promote", actor_type: "platform", resource_id: app.appId },
  ]);
  assert.match(
    log.join("\n"),
    /Build 1 of app\.\n.*Fetching branch main[^]*App built in [^]*hello from app[^]*App initialized in [^]*App started successfully!$/,
  );
});

test("what cannot be built ends as build_failure, with the reason and what to do as its last lines", async (t) => {
  const { db, server, start, folder } = await open(t);
  await server.createRepo("acme", "app", { "README.md": "" });
  await server.createRepo("acme", "image", { Dockerfile: "FROM debian\n" });
  await server.createRepo("acme", "bad", {
    "main.py": "",
    "cerebrium.toml": "[cerebrium.hardware]\ncpu = 9999\n",
  });
  await server.createRepo("acme", "cmd", {
    "main.py": "",
    "cerebrium.toml": `[cerebrium.deployment]\npython_version = "${pipVersion}"\nshell_commands = ["exit 7"]\n`,
  });
  await start();
  const cases: [Record<string, unknown>, RegExp][] = [
    [{}, /^There is no main\.py in the repository's root/],
    [
      { gitRepo: "acme/image" },
      /root, .* but there is Dockerfile, which the process driver cannot build; the docker driver does/,
    ],
    [
      { dockerfilePath: "README.md" },
      /process driver does not build Dockerfiles; the docker driver does/,
    ],
    [{ gitBranch: "nope" }, /^The branch "nope" does not exist in acme\/app; it has: main\./],
    [{ gitRepo: "acme/none" }, /does not exist, or it is private/],
    [{ gitRepo: "acme/bad" }, /hardware\.cpu in cerebrium\.toml/],
    [{ gitRepo: "acme/cmd" }, /^Command 1 of shell_commands ended with exit code 7: exit 7\./],
    [
      { runtime: "custom", dockerfilePath: "README.md" },
      /process driver does not build Dockerfiles; the docker driver does/,
    ],
  ];
  for (const [index, [request, expected]] of cases.entries()) {
    const app = await createApp(db, { name: `app-${index}`, request });
    const { row, log } = await buildInState(db, (await requestBuild(db, app)).buildId, [
      "build_failure",
    ]);
    assert.match(row.reason ?? "", expected);
    assert.deepEqual(log.slice(-2), [`Error: ${row.reason}`, "Error: App build failed"]);
    assert.equal(
      (await db.selectFrom("releases").select("id").where("app_id", "=", app.appId).execute())
        .length,
      0,
    );
  }
  await until("nothing is left", async () => (await leftovers(folder)).length === 0);
});

test("an app that does not start ends as init_failure with its own words in the log; the live release stays", async (t) => {
  let outcome: Awaited<ReturnType<TrialStarter["tryRelease"]>> = good;
  const trial = playedTrial(([, { onLine }]) => {
    if (!outcome.ok)
      onLine({
        replicaId: "r" as never,
        at: 0,
        stream: "stderr",
        runId: null,
        text: "ImportError: no module named x",
      });
    return outcome;
  });
  const { db, server, start } = await open(t, { trial });
  await server.createRepo("acme", "app", { "main.py": "" });
  await start();
  const app = await createApp(db);
  await buildInState(db, (await requestBuild(db, app)).buildId, ["success"]);
  const { live_release_id: live } = await db
    .selectFrom("apps")
    .select("live_release_id")
    .executeTakeFirstOrThrow();
  for (const [kind, status] of [
    ["failed", "init_failure"],
    ["timeout", "init_timeout"],
  ] as const) {
    outcome = { ok: false, kind, reason: "The replica ended with exit code 1." };
    const { row, log } = await buildInState(db, (await requestBuild(db, app)).buildId, [status]);
    assert.match(
      row.reason ?? "",
      /^The replica ended with exit code 1\. .*build it again \(POST …\/apps\/\{app\}\/builds\)\.$/,
    );
    assert.ok(log.includes("ImportError: no module named x"));
    const now = await db.selectFrom("apps").select("live_release_id").executeTakeFirstOrThrow();
    assert.equal(now.live_release_id, live);
  }
});

test("while there is no room for the app, the build waits in initializing with that reason shown, and other builds go on", async (t) => {
  const reason = "All of the platform's CPU is in use.";
  const trial = playedTrial(([{ settings }]) =>
    settings.memory < 64 ? good : { ok: false, kind: "no_capacity", reason },
  );
  const { db, url, server, start } = await open(t, { trial, buildsAtOnce: 1 });
  const routes = await openRoutes(t, { db, url });
  await server.createRepo("acme", "app", { "main.py": "" });
  await start();
  const app = await createApp(db, { request: { memory: 64 } });
  const { buildId } = await requestBuild(db, app);
  await until(
    "the reason is shown",
    async () => (await buildInState(db, buildId, ["initializing"])).row.reason === reason,
  );
  await until(
    "calls are told the reason",
    () => routes.byAppId(app.appId)?.latestBuild?.reason === reason,
  );
  const other = await createApp(db, { name: "other" });
  await buildInState(db, (await requestBuild(db, other)).buildId, ["success"]);
  await db.transaction().execute((tx) => requestCancel(tx, { ...app, buildId }));
  await buildInState(db, buildId, ["cancelled"]);
});

test("where nobody has set a branch and there is no main, the default branch is used, said, and kept", async (t) => {
  const { db, server, start } = await open(t, { trial: playedTrial(() => good) });
  await server.createRepo("acme", "app", { "main.py": "" }, "trunk");
  await server.push("acme", "app", { "main.py": "x = 1" }, "release/1.x");
  await start();
  const app = await createApp(db);
  const said =
    "acme/app has no branch main, and gitBranch is not set: its default branch trunk is used.";
  const { row, log } = await buildInState(db, (await requestBuild(db, app)).buildId, ["success"]);
  assert.ok(log.includes(said) && !log.some((line) => line.startsWith("fatal:")), log.join("\n"));
  assert.equal(row.branch, "trunk");
  const branchOf = async (): Promise<unknown> => {
    const release = await db
      .selectFrom("releases")
      .selectAll()
      .orderBy("number", "desc")
      .executeTakeFirstOrThrow();
    const { gitBranch } = release.settings as Record<string, unknown>;
    return [gitBranch, (release.origins as Record<string, unknown>)["gitBranch"]];
  };
  assert.deepEqual(await branchOf(), ["trunk", "default"]);
  await server.push("acme", "app", { "main.py": "x = 2" }, "main");
  const again = await buildInState(db, (await requestBuild(db, app)).buildId, ["success"]);
  assert.deepEqual(
    [again.row.branch, again.log.includes(said), await branchOf()],
    ["trunk", false, ["trunk", "default"]],
  );
  const given = await createApp(db, { name: "given", request: { gitBranch: "master" } });
  const failed = await buildInState(db, (await requestBuild(db, given)).buildId, ["build_failure"]);
  assert.match(
    failed.row.reason ?? "",
    /^The branch "master" does not exist in acme\/app; it has: main, release\/1\.x, trunk\./,
  );
});

test("a build can be cancelled in every stage, as soon as word of it comes, and leaves nothing", async (t) => {
  const isHanging = { source: false };
  const asked = { source: Promise.withResolvers<void>() };
  const intercept = (): boolean => (isHanging.source ? (asked.source.resolve(), true) : false);
  const trial = playedTrial(() => new Promise(() => undefined));
  // The queue never looks by itself: word of a cancel alone ends a build.
  const clock = { ...systemClock, after: () => () => undefined };
  const { db, server, start, folder } = await open(t, { trial, git: { intercept }, clock });
  const mark = join(folder, "mark");
  const toml = (command: string): string =>
    `[cerebrium.deployment]\npython_version = "${pipVersion}"\nshell_commands = [${JSON.stringify(command)}]\n`;
  await server.createRepo("acme", "app", { "main.py": "" });
  await server.createRepo("acme", "slow", {
    "main.py": "",
    "cerebrium.toml": toml(`echo $$ > ${mark}; sleep 600`),
  });
  const cancel = async (
    app: Awaited<ReturnType<typeof createApp>>,
    buildId: Awaited<ReturnType<typeof requestBuild>>["buildId"],
  ) => {
    await db.transaction().execute((tx) => requestCancel(tx, { ...app, buildId }));
    const { row } = await buildInState(db, buildId, ["cancelled"]);
    assert.equal(row.lease_holder, null);
    return row.reason;
  };
  const app = await createApp(db);
  assert.equal(
    await cancel(app, (await requestBuild(db, app)).buildId),
    "Cancelled before it started.",
  );
  await start();

  isHanging.source = true;
  const fetching = await requestBuild(db, app);
  await asked.source.promise;
  assert.equal(await cancel(app, fetching.buildId), "Cancelled.");
  isHanging.source = false;

  const slow = await createApp(db, {
    name: "slow",
    projectId: app.projectId,
    request: { gitRepo: "acme/slow" },
  });
  const running = await requestBuild(db, slow);
  const pid = Number(
    await until("the command runs", () => readFile(mark, "utf8"), { deadlineMs: 120_000 }),
  );
  await cancel(slow, running.buildId);
  await until("the command is gone", () => !isAlive(pid));

  const starting = await requestBuild(db, app);
  await until("the trial runs", () => trial.calls.length === 1, { deadlineMs: 60_000 });
  await cancel(app, starting.buildId);
  assert.ok(trial.calls[0]?.[1].signal.aborted);
  await until("nothing is left", async () => (await leftovers(folder)).length === 0);

  await assert.rejects(
    db.transaction().execute((tx) => requestCancel(tx, { ...app, buildId: starting.buildId })),
    (error: unknown) => error instanceof Fault && error.code === "conflict",
  );
});

test("a build that takes too long ends as build_failure with the setting's name", async (t) => {
  const { db, start } = await open(t, { git: { intercept: () => true }, buildTimeoutMs: 700 });
  await start();
  const app = await createApp(db);
  const { row } = await buildInState(db, (await requestBuild(db, app)).buildId, ["build_failure"]);
  assert.match(row.reason ?? "", /took longer than 1 s \(SLIPWAY_BUILD_TIMEOUT_SECONDS\)/);
});

test("builds of one app run one after the other in their order; other apps do not wait for them", async (t) => {
  const gate = Promise.withResolvers<void>();
  const order: number[] = [];
  const trial = playedTrial(async ([release]) => {
    if (release.settings.name !== "first") return good;
    await gate.promise;
    order.push(1);
    return good;
  });
  const { db, server, start } = await open(t, { trial, buildsAtOnce: 4 });
  await server.createRepo("acme", "app", { "main.py": "" });
  const first = await createApp(db, { name: "first" });
  const builds = [
    await requestBuild(db, first),
    await requestBuild(db, first),
    await requestBuild(db, first),
  ];
  await start();
  const other = await createApp(db, { name: "other" });
  await buildInState(db, (await requestBuild(db, other)).buildId, ["success"]);
  const states = await db
    .selectFrom("builds")
    .select("status")
    .where("app_id", "=", first.appId)
    .orderBy("number")
    .execute();
  assert.deepEqual(
    states.slice(1).map(({ status }) => status),
    ["pending", "pending"],
  );
  gate.resolve();
  const ended = [];
  for (const { buildId } of builds) ended.push((await buildInState(db, buildId, ["success"])).row);
  const times = ended
    .map((row) => [row.started_at?.getTime() ?? 0, row.ended_at?.getTime() ?? 0])
    .flat();
  assert.deepEqual(
    times,
    times.toSorted((a, b) => a - b),
  );
  const { live_release_id } = await db
    .selectFrom("apps")
    .select("live_release_id")
    .where("id", "=", first.appId)
    .executeTakeFirstOrThrow();
  const { build_id } = await db
    .selectFrom("releases")
    .select("build_id")
    .where("id", "=", live_release_id)
    .executeTakeFirstOrThrow();
  assert.equal(build_id, builds[2]?.buildId);
});

test("a rebuild takes the recorded commit and settings, whatever the branch holds now", async (t) => {
  const { db, server, start } = await open(t);
  const commit = await server.createRepo("acme", "app", {
    "main.py": "old",
    "cerebrium.toml": "[cerebrium.hardware]\nmemory = 1.5\n",
  });
  await start();
  const app = await createApp(db);
  const first = await requestBuild(db, app);
  await buildInState(db, first.buildId, ["success"]);
  await server.push("acme", "app", {
    "main.py": "new",
    "cerebrium.toml": "[cerebrium.hardware]\nmemory = 3\n",
  });
  const again = await db
    .transaction()
    .execute((tx) => rebuild(tx, { ...app, buildId: first.buildId, by: platformActor }));
  const { row } = await buildInState(db, again.buildId, ["success"]);
  assert.deepEqual([row.number, row.cause, row.commit_sha], [2, "rebuild", commit]);
  assert.equal((row.settings as { memory: number }).memory, 1.5);
  const { appDir } = processArtifact(row.artifact as Artifact);
  assert.equal(await readFile(join(appDir, "main.py"), "utf8"), "old");
});

test("a rebuild of a build whose stored settings cannot be read fails with the field's name", async (t) => {
  const { db, server, start } = await open(t);
  await server.createRepo("acme", "app", { "main.py": "" });
  await start();
  const app = await createApp(db);
  const first = await requestBuild(db, app);
  await buildInState(db, first.buildId, ["success"]);
  await db
    .updateTable("builds")
    .set({ settings: sql`settings || '{"memory": "much"}'` })
    .execute();
  const again = await db
    .transaction()
    .execute((tx) => rebuild(tx, { ...app, buildId: first.buildId, by: platformActor }));
  const { row } = await buildInState(db, again.buildId, ["build_failure"]);
  assert.match(row.reason ?? "", /stored settings cannot be read: memory is "much"/);
});

test("builds of one app wait for each other and say so, and too many are refused", async (t) => {
  const { db } = await open(t);
  const app = await createApp(db);
  const first = await requestBuild(db, app);
  for (let index = 1; index < 50; index++) await requestBuild(db, app);
  const rows = await db.selectFrom("builds").select("reason").orderBy("number").execute();
  const waits = `It waits until build 1 (${first.buildId}) has ended; DELETE …/builds/{build_id} cancels that one.`;
  assert.deepEqual([...new Set(rows.map(({ reason }) => reason))], [null, waits]);
  await assert.rejects(
    requestBuild(db, app),
    (error: unknown) => error instanceof Fault && error.code === "rate_limited",
  );
});

test("artifacts of the live and the last releases stay, older ones and failed ones go", async (t) => {
  const outcomes = [true, true, true, true, true, false];
  const trial = playedTrial(() =>
    outcomes.shift() === true ? good : { ok: false, kind: "failed", reason: "It ended." },
  );
  const { db, server, start, folder } = await open(t, { trial });
  await server.createRepo("acme", "app", { "main.py": "" });
  await start();
  const app = await createApp(db);
  const ids: string[] = [];
  for (let index = 0; index < 6; index++) {
    await server.push("acme", "app", { "main.py": `# ${index}` });
    const { buildId } = await requestBuild(db, app);
    await buildInState(db, buildId);
    ids.push(buildId);
  }
  await until("three are left", async () => (await leftovers(folder)).length === 3);
  assert.deepEqual((await leftovers(folder)).sort(), ids.slice(2, 5).sort());
});
