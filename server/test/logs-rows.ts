// Rows that the tests of logs stand on: a project with an app and builds, and lines to append.
import type { AppLine } from "#logs/app-log-store.ts";
import type { BuildLine } from "#logs/build-log-store.ts";
import {
  appIdOf,
  newBuildId,
  newProjectId,
  newReplicaId,
  type AppId,
  type BuildId,
  type ProjectId,
  type ReplicaId,
} from "#lib/ids.ts";
import type { Db } from "#store/database.ts";
import { toJson } from "#store/json.ts";

export type AppRow = {
  readonly projectId: ProjectId;
  readonly appId: AppId;
  readonly replicaId: ReplicaId;
};

export async function insertApp(db: Db): Promise<AppRow> {
  const projectId = newProjectId();
  const appId = appIdOf(projectId, "app");
  await db.insertInto("projects").values({ id: projectId, name: "project" }).execute();
  await db
    .insertInto("apps")
    .values({ id: appId, project_id: projectId, name: "app", request: toJson({}) })
    .execute();
  return { projectId, appId, replicaId: newReplicaId("app") };
}

export async function insertBuild(
  db: Db,
  app: AppRow,
  number = 1,
  id = newBuildId(),
): Promise<BuildId> {
  await db
    .insertInto("builds")
    .values({
      id,
      project_id: app.projectId,
      app_id: app.appId,
      number,
      cause: "create",
      status: "building",
      request: toJson({}),
    })
    .execute();
  return id;
}

export async function endBuild(db: Db, id: BuildId, endedAt = new Date()): Promise<void> {
  await db
    .updateTable("builds")
    .set({ status: "success", ended_at: endedAt })
    .where("id", "=", id)
    .execute();
}

/** Lines `from`, `from + 1`, … of the standard output of a build's dependencies. */
export function buildLines(count: number, from = 1): BuildLine[] {
  return Array.from({ length: count }, (_, index) => ({
    at: 1_800_000_000_000 + index,
    stage: "dependencies",
    stream: "stdout",
    line: `line ${from + index}`,
  }));
}

/** One line of an app, changed as told. */
export function appLine(app: AppRow, changes: Partial<AppLine> = {}): AppLine {
  return {
    ...app,
    runId: null,
    at: 1_800_000_000_000,
    stream: "stdout",
    text: "hello",
    ...changes,
  };
}
