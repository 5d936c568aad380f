// Builds survive the platform: killed in any stage it is taken back, stopped it is put back, and
// two platforms at once never work on one build.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { requestCancel } from "#deploy/end-builds.ts";
import type { BuildId } from "#lib/ids.ts";
import { drawTests } from "#test/support/drawn-cases.ts";
import {
  buildInState,
  buildLog,
  createApp,
  playedTrial,
  requestBuild,
  startQueue,
} from "#test/support/build-queue.ts";
import { testDatabase } from "#test/support/database.ts";
import { temporaryFolder } from "#test/support/folder.ts";
import { startGitServer } from "#test/support/git-server.ts";
import { pipVersion } from "#test/support/give-pip.ts";
import { isAlive } from "#test/support/is-alive.ts";
import { until } from "#test/support/until.ts";

const test = drawTests({ what: "ends of a platform in a build", count: 7, max: 3 });

const leaseMs = 3000;
const good = { ok: true } as const;
const workerFile = join(import.meta.dirname, "support/build-worker.ts");

/** `hold`: git answers nothing while it is true. */
async function open(t: TestContext) {
  const database = await testDatabase(t);
  const folder = temporaryFolder(t, "survival");
  const hold = { git: false, asked: Promise.withResolvers<void>() };
  const server = await startGitServer(t, {
    intercept: () => (hold.git ? (hold.asked.resolve(), true) : false),
  });
  const parts = { ...database, folder, urlTemplate: server.urlTemplate, leaseMs };
  const startWorker = async (): Promise<() => Promise<void>> => {
    const settings = {
      url: database.url.reveal(),
      urlTemplate: server.urlTemplate,
      folder,
      leaseMs,
    };
    const child = spawn(process.execPath, [workerFile, JSON.stringify(settings)], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const gone = once(child, "exit");
    const kill = async (): Promise<void> => {
      child.kill("SIGKILL");
      await gone;
    };
    t.after(kill);
    await once(child.stdout, "data");
    return kill;
  };
  return { ...database, folder, server, hold, parts, startWorker };
}

test("a build whose platform is killed while it fetches is begun again by the next, and succeeds", async (t) => {
  const { db, server, hold, parts, startWorker } = await open(t);
  const commit = await server.createRepo("acme", "app", { "main.py": "" });
  const { buildId } = await requestBuild(db, await createApp(db));
  hold.git = true;
  const kill = await startWorker();
  await hold.asked.promise;
  await kill();
  hold.git = false;
  await startQueue(t, { ...parts, trial: playedTrial(() => good) });
  const { row, log } = await buildInState(db, buildId, ["success"]);
  assert.equal(row.commit_sha, commit);
  assert.ok(log.includes("The platform was stopped during this build; it starts again (2 of 3)."));
});

test("a build whose platform is killed during a command is begun again, and the command has died with the platform", async (t) => {
  const { db, server, folder, parts, startWorker } = await open(t);
  const mark = join(folder, "mark");
  // Hangs only the first time.
  const command = `test -e ${mark} && exit 0; echo $$ > ${mark}; sleep 600`;
  await server.createRepo("acme", "app", {
    "main.py": "",
    "cerebrium.toml": `[cerebrium.deployment]\npython_version = "${pipVersion}"\nshell_commands = [${JSON.stringify(command)}]\n`,
  });
  const { buildId } = await requestBuild(db, await createApp(db));
  const kill = await startWorker();
  const pid = Number(
    await until("the command runs", () => readFile(mark, "utf8"), { deadlineMs: 120_000 }),
  );
  await kill();
  await until("the command is gone", () => !isAlive(pid));
  await startQueue(t, { ...parts, trial: playedTrial(() => good) });
  const { row } = await buildInState(db, buildId, ["success"]);
  assert.equal(row.lease_epoch, 2);
  // The files are removed right after the build has ended for its owner.
  const sources = async (): Promise<string> =>
    (await readdir(join(folder, "sources"))).sort().join();
  await until(
    "the sources are gone",
    async () => (await sources()).replace("checkouts,", "") === "known-hosts",
  );
  assert.deepEqual((await readdir(join(folder, "builds"))).sort(), [buildId, "cache"].sort());
});

test("a build whose platform is killed during the trial start is begun again; its release is the same one", async (t) => {
  const { db, server, parts, startWorker } = await open(t);
  await server.createRepo("acme", "app", { "main.py": "" });
  const { buildId } = await requestBuild(db, await createApp(db));
  const kill = await startWorker();
  await buildInState(db, buildId, ["initializing"]);
  const before = await db.selectFrom("releases").select("id").execute();
  await kill();
  await startQueue(t, { ...parts, trial: playedTrial(() => good) });
  await buildInState(db, buildId, ["success"]);
  assert.deepEqual(await db.selectFrom("releases").select("id").execute(), before);
});

test("a build that was begun three times by platforms that were killed is given up on with that reason", async (t) => {
  const { db, server, parts, folder, startWorker } = await open(t);
  await server.createRepo("acme", "app", { "main.py": "" });
  const { buildId } = await requestBuild(db, await createApp(db));
  for (let take = 1; take <= 3; take++) {
    const kill = await startWorker();
    await until(
      `take ${take}`,
      async () => {
        const row = await db
          .selectFrom("builds")
          .select(["lease_epoch", "status"])
          .where("id", "=", buildId)
          .executeTakeFirstOrThrow();
        return row.lease_epoch === take && row.status === "initializing";
      },
      { deadlineMs: 30_000 },
    );
    await kill();
  }
  await startQueue(t, { ...parts, trial: playedTrial(() => good) });
  const { row, log } = await buildInState(db, buildId, ["build_failure"]);
  assert.match(row.reason ?? "", /^The platform was stopped 3 times during this build/);
  assert.deepEqual(log.slice(-2), [`Error: ${row.reason}`, "Error: App build failed"]);
  await until("what they left is gone", async () => {
    const names = [
      ...(await readdir(join(folder, "sources"))),
      ...(await readdir(join(folder, "builds"))),
    ];
    return !names.includes(buildId);
  });
});

test("a build that is cancelled while its platform is dead ends as cancelled", async (t) => {
  const { db, server, parts, startWorker } = await open(t);
  await server.createRepo("acme", "app", { "main.py": "" });
  const app = await createApp(db);
  const { buildId } = await requestBuild(db, app);
  const kill = await startWorker();
  await buildInState(db, buildId, ["initializing"]);
  await kill();
  await db.transaction().execute((tx) => requestCancel(tx, { ...app, buildId }));
  const trial = playedTrial(() => good);
  await startQueue(t, { ...parts, trial });
  await buildInState(db, buildId, ["cancelled"]);
  assert.equal(trial.calls.length, 0);
});

test("a platform that stops puts its builds back, and the next goes on with them", async (t) => {
  const { db, server, parts } = await open(t);
  await server.createRepo("acme", "app", { "main.py": "" });
  const { buildId } = await requestBuild(db, await createApp(db));
  const trial = playedTrial(() => new Promise(() => undefined));
  const first = await startQueue(t, { ...parts, trial, leaseMs: 600_000 });
  await until("the trial runs", () => trial.calls.length === 1, { deadlineMs: 60_000 });
  await first.stop();
  const row = await db
    .selectFrom("builds")
    .select(["status", "lease_holder"])
    .where("id", "=", buildId)
    .executeTakeFirstOrThrow();
  assert.deepEqual(row, { status: "pending", lease_holder: null });
  await startQueue(t, { ...parts, trial: playedTrial(() => good) });
  await buildInState(db, buildId, ["success"]);
  assert.ok(
    (await buildLog(db, buildId)).includes(
      "The platform is stopping; the build continues when it is back.",
    ),
  );
});

test("two platforms at once work on each build once, and on each app one build at a time", async (t) => {
  const { db, url, server, parts } = await open(t);
  await server.createRepo("acme", "app", { "main.py": "" });
  const working = new Map<string, number>();
  const starts = new Map<BuildId, number>();
  let overlaps = 0;
  const trial = playedTrial(async ([release]) => {
    starts.set(release.buildId, (starts.get(release.buildId) ?? 0) + 1);
    working.set(release.appId, (working.get(release.appId) ?? 0) + 1);
    if ((working.get(release.appId) ?? 0) > 1) overlaps += 1;
    // Long enough that another worker would be seen; the database is asked in between.
    await db.selectFrom("builds").select("id").execute();
    working.set(release.appId, (working.get(release.appId) ?? 0) - 1);
    return good;
  });
  const other = temporaryFolder(t, "survival-other");
  for (const folder of [parts.folder, other]) {
    await startQueue(t, { ...parts, url, folder, trial, buildsAtOnce: 3, leaseMs: 60_000 });
  }
  const first = await createApp(db, { name: "app-0" });
  const apps = [first];
  for (const name of ["app-1", "app-2", "app-3"])
    apps.push(await createApp(db, { name, projectId: first.projectId }));
  const ids: BuildId[] = [];
  for (let round = 0; round < 6; round++) {
    ids.push(
      ...(await Promise.all(apps.map((app) => requestBuild(db, app)))).map(
        ({ buildId }) => buildId,
      ),
    );
  }
  for (const buildId of ids) await buildInState(db, buildId, ["success"]);
  assert.equal(overlaps, 0);
  assert.deepEqual([...new Set(starts.values())], [1]);
  assert.equal(starts.size, ids.length);
  const epochs = await db.selectFrom("builds").select("lease_epoch").distinct().execute();
  assert.deepEqual(epochs, [{ lease_epoch: 1 }]);
});
