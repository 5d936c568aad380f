// Whose build is begun next when several projects wait.
import assert from "node:assert/strict";
import { test } from "node:test";
import { systemClock } from "#lib/clock.ts";
import { appIdOf, newProjectId, type ProjectId } from "#lib/ids.ts";
import { silentLog } from "#lib/log.ts";
import { claimable } from "#deploy/build-store.ts";
import { receiveBuild } from "#deploy/receive.ts";
import { toJson } from "#store/json.ts";
import { Leases } from "#store/lease.ts";
import { testDatabase } from "#test/support/database.ts";

test("a project with many builds in the queue does not keep another's first one waiting", async (t) => {
  const { db } = await testDatabase(t);
  const addProject = async (): Promise<ProjectId> => {
    const id = newProjectId();
    await db.insertInto("projects").values({ id, name: "project" }).execute();
    return id;
  };
  /** Adds an app with one build; returns the build's id. */
  const addBuild = async (projectId: ProjectId, name: string): Promise<string> => {
    const appId = appIdOf(projectId, name);
    await db
      .insertInto("apps")
      .values({ id: appId, project_id: projectId, name, request: toJson({}) })
      .execute();
    const build = { projectId, appId, cause: "create" as const, request: {}, configToml: null };
    return (await db.transaction().execute((tx) => receiveBuild(tx, build))).buildId;
  };
  const [busyProject, otherProject] = [await addProject(), await addProject()];
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
    const [lease] = await leases.claim({ ...claimable, limit: 1 });
    claimed.push(String(lease?.id));
  }
  assert.deepEqual(claimed, [busy[0], other, ...busy.slice(1)]);
});
