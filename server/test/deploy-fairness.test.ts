// Whose build is begun next when several projects wait.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { platformActor } from "#audit/record.ts";
import { systemClock } from "#lib/clock.ts";
import { newProjectId, type ProjectId } from "#lib/ids.ts";
import { silentLog } from "#lib/log.ts";
import { claimable } from "#deploy/build-store.ts";
import { receiveBuild } from "#deploy/receive.ts";
import { Leases } from "#store/lease.ts";
import {
  buildInState,
  createApp,
  playedTrial,
  requestBuild,
  startQueue,
} from "#test/support/build-queue.ts";
import { testDatabase } from "#test/support/database.ts";
import { temporaryFolder } from "#test/support/folder.ts";
import { startGitServer } from "#test/support/git-server.ts";
import { pipVersion } from "#test/support/give-pip.ts";

test("a project with many builds in the queue does not keep another's first one waiting", async (t) => {
  const { db } = await testDatabase(t);
  const addProject = async (): Promise<ProjectId> => {
    const id = newProjectId();
    await db.insertInto("projects").values({ id, name: "project" }).execute();
    return id;
  };
  /** Adds an app with one build; returns the build's id. */
  const addBuild = async (projectId: ProjectId, name: string): Promise<string> => {
    const { appId } = await createApp(db, { projectId, name });
    const build = { projectId, appId, cause: "create" as const, by: platformActor };
    return (await db.transaction().execute((tx) => receiveBuild(tx, build))).buildId;
  };
  const busyProject = await addProject();
  const otherProject = await addProject();
  const busy: string[] = [];
  for (const name of ["one", "two", "three"]) busy.push(await addBuild(busyProject, name));
  const other = await addBuild(otherProject, "only");
  const leases = new Leases({
    db,
    table: "builds",
    holder: "test",
    leaseMs: 60_000,
    log: silentLog,
    clock: systemClock,
  });
  const claimed: string[] = [];
  for (let count = 0; count < 4; count++) {
    const [lease] = await leases.claim({
      ...claimable({ running: [], runningMax: 1, working: [], workingMax: 1 }),
      limit: 1,
    });
    claimed.push(String(lease?.id));
  }
  assert.deepEqual(claimed, [busy[0], other, ...busy.slice(1)]);
});

/** A queue with a repository whose builds end once their app's file is there. */
async function openHeld(t: TestContext, buildsAtOnce: number) {
  const database = await testDatabase(t);
  const folder = temporaryFolder(t, "fairness");
  const server = await startGitServer(t);
  const hold = `until test -e ${folder}/go; do sleep 0.05; done`;
  const toml = `[cerebrium.deployment]\npython_version = "${pipVersion}"\nshell_commands = [${JSON.stringify(hold)}]\n`;
  await server.createRepo("acme", "long", { "main.py": "", "cerebrium.toml": toml });
  await server.createRepo("acme", "short", { "main.py": "" });
  const trial = playedTrial(() => ({ ok: true }));
  await startQueue(t, {
    ...database,
    folder,
    urlTemplate: server.urlTemplate,
    trial,
    buildsAtOnce,
  });
  const { db } = database;
  const build = async (given: { name: string; projectId?: ProjectId; gitRepo: string }) => {
    const app = await createApp(db, { ...given, request: { gitRepo: given.gitRepo } });
    return { projectId: app.projectId, buildId: (await requestBuild(db, app)).buildId };
  };
  const states = async (): Promise<string[]> =>
    (await db.selectFrom("builds").select("status").orderBy("created_at").execute()).map(
      ({ status }) => status,
    );
  return { db, build, states, letGo: () => writeFileSync(join(folder, "go"), "") };
}

test("while long builds of one project run, another's build does not wait for them to end", async (t) => {
  const { db, build, states, letGo } = await openHeld(t, 2);
  const other = await createApp(db, { name: "short", request: { gitRepo: "acme/short" } });
  const { projectId, buildId } = await build({ name: "one", gitRepo: "acme/long" });
  const more = [];
  for (const name of ["two", "three"])
    more.push(await build({ name, projectId, gitRepo: "acme/long" }));
  await buildInState(db, buildId, ["building"]);
  await buildInState(db, (await requestBuild(db, other)).buildId, ["success"]);
  assert.deepEqual(await states(), ["building", "pending", "pending", "success"]);
  letGo();
  for (const one of more) await buildInState(db, one.buildId, ["success"]);
});

test("a project that is alone on the platform builds as many at once as are allowed", async (t) => {
  const { db, build, states, letGo } = await openHeld(t, 2);
  const first = await build({ name: "one", gitRepo: "acme/long" });
  const second = await build({ name: "two", projectId: first.projectId, gitRepo: "acme/long" });
  for (const { buildId } of [first, second]) await buildInState(db, buildId, ["building"]);
  assert.deepEqual(await states(), ["building", "building"]);
  letGo();
  for (const { buildId } of [first, second]) await buildInState(db, buildId, ["success"]);
});
