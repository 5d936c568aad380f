// The lists of replicas: of all apps of a project, and of those that have ended, as long as their
// rows are kept.
import assert from "node:assert/strict";
import { test } from "node:test";
import { containerList, endedContainerList } from "@slipway/contract/container-answers.ts";
import { systemClock } from "#lib/clock.ts";
import type { AppId, BuildId, ReplicaId } from "#lib/ids.ts";
import { daysAgo, removeOld } from "#lib/retention.ts";
import { schedulerRetention } from "#scheduler/retention.ts";
import type { DaysOfProjects } from "#store/steps-by-app.ts";
import { startManagementApi, type ApiUnderTest } from "./support/management-api.ts";
import { insertReleases } from "./support/release-rows.ts";

const ended = { reason: "The app ended with exit code 3.", exit_code: 3, is_trial: true };

/** An app with a replica in each of the states. */
async function addApp(
  api: ApiUnderTest,
  name: string,
  states: readonly ("ready" | "stopped")[],
): Promise<string[]> {
  const { projectId, db } = api;
  const body = { name, gitRepo: "acme/shop" };
  const made = (await api.call("POST", `/v2/projects/${projectId}/apps/git`, { body })).body;
  await insertReleases(db, made.appId);
  const app = {
    project_id: projectId,
    app_id: made.appId as AppId,
    build_id: made.buildId as BuildId,
  };
  const releases = db.selectFrom("releases").select("id").where("app_id", "=", app.app_id);
  const { id: releaseId } = await releases.limit(1).executeTakeFirstOrThrow();
  const ids = states.map((state) => `${name}-${state}` as ReplicaId);
  for (const [index, id] of ids.entries()) {
    const state = states[index] ?? "ready";
    const claimed = {
      compute: "CPU",
      compute_tier: "interruptible" as const,
      gpu_count: 0,
      cpu_cores: 1,
      memory_gb: 1,
    };
    const values = {
      id,
      ...app,
      release_id: releaseId,
      driver: "process" as const,
      state,
      ...claimed,
    };
    await db
      .insertInto("replicas")
      .values({
        ...values,
        ...(state === "stopped" ? { ...ended, stopped_at: new Date("2026-01-02T00:00:00Z") } : {}),
      })
      .execute();
  }
  return ids;
}

test("the replicas of all apps of a project are listed that have not stopped, and none of another project", async (t) => {
  const api = await startManagementApi(t);
  const [one] = await addApp(api, "one", ["ready", "stopped"]);
  const [two] = await addApp(api, "two", ["ready"]);
  const listed = async (project: string, token = api.token): Promise<string[]> => {
    const { body } = await api.call("GET", `/v2/projects/${project}/containers`, { token });
    return containerList.parse(body).map(({ containerId }) => containerId);
  };
  assert.deepEqual(await listed(api.projectId), [one, two]);
  const other = await api.addProject("other");
  assert.deepEqual(
    await listed(other, await api.issue({ kind: "service_account", projectId: other })),
    [],
  );
});

test("replicas that have stopped are listed with why, of one app and for who may see it", async (t) => {
  const api = await startManagementApi(t);
  const [, stopped = ""] = await addApp(api, "one", ["ready", "stopped"]);
  await addApp(api, "two", ["stopped"]);
  const path = `/v2/projects/${api.projectId}/apps/one/containers/ended`;
  const [first, ...others] = endedContainerList.parse((await api.call("GET", path)).body);
  assert.deepEqual(others, []);
  assert.deepEqual(
    [
      first?.containerId,
      first?.startedFor,
      first?.reason,
      first?.exitCode,
      first?.startedAt,
      first?.endedAt,
    ],
    [stopped, "trial", ended.reason, 3, null, "2026-01-02T00:00:00.000Z"],
  );
  const nowhere = await api.call("GET", path.replace("/one/", "/none/"));
  assert.equal(nowhere.status, 404);
  const token = await api.issue({
    kind: "service_account",
    projectId: await api.addProject("other"),
  });
  assert.equal((await api.call("GET", path, { token })).status, 404);
});

test("ended replicas go once no run and no call is listed with them, if they are metered", async (t) => {
  const api = await startManagementApi(t);
  const all = await addApp(api, "one", ["ready", "stopped"]);
  const [serving, stopped] = all;
  const remove = async (callDays: number, callDaysOf: DaysOfProjects = () => null) => {
    const days = { runRetentionDays: 40, callRetentionDays: callDays, callDaysOf };
    const steps = schedulerRetention({ db: api.db, clock: systemClock, ...days });
    await removeOld(steps, new AbortController().signal);
    const rows = await api.db.selectFrom("replicas").select("id").orderBy("id").execute();
    return rows.map(({ id }) => id as string);
  };
  const change = async (daysSinceEnd: number, isMetered: boolean): Promise<void> => {
    const [at, earlier] = [daysSinceEnd, 1000].map((days) => daysAgo(systemClock, days));
    await api.db
      .updateTable("replicas")
      .set({ created_at: earlier, started_at: earlier, is_metered: isMetered })
      .execute();
    const ended = api.db.updateTable("replicas").set({ stopped_at: at });
    await ended.where("state", "=", "stopped").execute();
  };
  await change(50, false);
  assert.deepEqual(await remove(10), all, "it is not metered");
  await change(40.5, true);
  assert.deepEqual(await remove(10), all, "runs are listed with it");
  await change(50, true);
  assert.deepEqual(await remove(60), all, "calls are listed with it");
  assert.deepEqual(await remove(10, () => () => 60), all, "calls are, by the project's plan");
  assert.deepEqual(await remove(60, () => () => 10), [serving], `${stopped} stayed`);
});

test("an ended replica is kept as long as charts show that it started", async (t) => {
  const api = await startManagementApi(t);
  const [stopped] = await addApp(api, "one", ["stopped"]);
  const steps = () =>
    schedulerRetention({
      db: api.db,
      clock: systemClock,
      runRetentionDays: 1,
      callRetentionDays: 1,
      callDaysOf: () => null,
    });
  const remaining = async (daysSinceEnd: number) => {
    const at = daysAgo(systemClock, daysSinceEnd);
    await api.db.updateTable("replicas").set({ created_at: at, stopped_at: at }).execute();
    await removeOld(steps(), new AbortController().signal);
    return (await api.db.selectFrom("replicas").select("id").execute()).map(({ id }) => id);
  };
  assert.deepEqual(await remaining(30), [stopped]);
  assert.deepEqual(await remaining(32), [], "it never started, so nothing is to be metered");
});
