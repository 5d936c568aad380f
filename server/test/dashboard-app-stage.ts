// An app with everything that its pages show, as rows: a roll-out, runs, lines of its log, pushes,
// replicas and an hour of calls, with hostile and long names; and three more apps that need
// attention.
import { sql } from "kysely";
import { newGitDeliveryId, newRunId, type AppId, type ReplicaId, type RunId } from "#lib/ids.ts";
import { insertAppLines } from "#logs/app-log-store.ts";
import { addDelivery } from "#pushes/push-store.ts";
import { addUses } from "#scheduler/use-history-store.ts";
import { toJson } from "#store/json.ts";
import { spend } from "./budgets-stage.ts";
import { hostileName, type ProjectStage } from "./dashboard-project-stage.ts";
import { insertRollOut } from "./support/roll-out-rows.ts";
import { insertCall, insertRun, type RowsAddress } from "./support/run-rows.ts";

/** Markup, a code for terminals, text that runs the other way, and no place to break. */
export const hostileText = `<img src=x onerror="window.hacked='text'"> \u001b[31m\u202egnp.exe ${"W".repeat(300)}`;

const minuteMs = 60_000;

export type FilledApp = RowsAddress & {
  /** Ran on a replica that started for it, and printed. */
  readonly coldRun: RunId;
  /** Failed at its third attempt, and can be run again. */
  readonly deadRun: RunId;
  readonly pendingRun: RunId;
  readonly failedDelivery: string;
};

/** Creates an app without builds and releases. */
export async function addApp({ api, call }: ProjectStage, name: string): Promise<RowsAddress> {
  await call("POST", "/apps/git", { name, gitRepo: "acme/shop" });
  return { db: api.db, projectId: api.projectId, appId: `${api.projectId}-${name}` as AppId };
}

/** Fills the project. */
export async function fillApp(stage: ProjectStage): Promise<FilledApp> {
  const place = await addApp(stage, "my-app");
  await insertRollOut(place.db, place.appId);
  const changed = toJson({ cpu: 7.5, entrypoint: [hostileText], scalingMetric: "cpu_utilization" });
  await sql`
    update releases set settings = settings || ${changed}, end_reason = null,
                        commit_sha = ${"a".repeat(40)}, commit_message = ${hostileText}, created_by = ${toJson({ type: "person", id: null, name: hostileName })}
     where app_id = ${place.appId} and number = 2`.execute(place.db);
  const now = new Date();
  const replica = await addReplicas(place, now);
  const failedDelivery = await addDeliveries(place);
  await stage.call("POST", "/apps/my-app/git-hook");
  const runs = await addRuns(place, replica, now);
  await addHour(place);
  await addNeedy(stage);
  await spend(place.db, stage.api, {
    cents: 1_234,
    app: "my-app",
    month: new Date().toISOString().slice(0, 7),
  });
  await stage.call("PUT", "/budget", { amount_cents: 1_000, stop: false });
  return { ...place, ...runs, failedDelivery };
}

async function addReplicas({ db, appId }: RowsAddress, now: Date): Promise<ReplicaId> {
  await sql`
    insert into replicas (id, project_id, app_id, release_id, build_id, driver, state, compute, compute_tier, gpu_count,
                          cpu_cores, memory_gb, provider, region, created_at, started_at, ready_at, restarts)
    select case n when 1 then 'my-app-ready' else 'my-app-starting' end, project_id, app_id, id, build_id, 'process',
           case n when 1 then 'ready' else 'starting' end, 'CPU', 'protected', 0, 1, 1, 'local', 'here',
           ${now}::timestamptz - interval '200 seconds', ${now}::timestamptz - interval '190 seconds', case n when 1 then ${now}::timestamptz - interval '170 seconds' end, 2
      from releases cross join generate_series(1, 2) n
     where app_id = ${appId} and releases.number = 1`.execute(db);
  await sql`
    insert into replicas (id, project_id, app_id, release_id, build_id, driver, state, compute, compute_tier, gpu_count,
                          cpu_cores, memory_gb, created_at, started_at, stopped_at, is_metered, reason, exit_code)
    select 'my-app-ended', project_id, app_id, id, build_id, 'process', 'stopped', 'CPU', 'protected', 0, 1, 1,
           ${now}::timestamptz - interval '400 seconds', ${now}::timestamptz - interval '390 seconds',
           ${now}::timestamptz - interval '300 seconds', true, ${`The app ended with exit code 3. ${hostileText}`}, 3
      from releases where app_id = ${appId} and number = 1`.execute(db);
  return "my-app-ready" as ReplicaId;
}

async function addDeliveries({ db, appId }: RowsAddress): Promise<string> {
  const failed = newGitDeliveryId();
  const row = {
    app_id: appId,
    host: "github" as const,
    event: "push",
    delivery_key: null,
    commit_sha: "b".repeat(40),
    message: hostileText,
    author: hostileName,
  };
  await db.transaction().execute(async (tx) => {
    const ignored = {
      ref: `refs/heads/${hostileText}`,
      verdict: "ignored",
      reason: "branch other is not main",
    } as const;
    await addDelivery(tx, { ...row, ...ignored, id: newGitDeliveryId() });
    const ref = "refs/heads/main";
    const reason = hostileText;
    await addDelivery(tx, {
      ...row,
      ref,
      reason,
      verdict: "failed",
      id: failed,
      report_failure: "answered 403",
    });
  });
  return failed;
}

async function addRuns(
  place: RowsAddress,
  replicaId: ReplicaId,
  now: Date,
): Promise<Pick<FilledApp, "coldRun" | "deadRun" | "pendingRun">> {
  const { db, projectId, appId } = place;
  const coldRun = newRunId();
  const acceptedAt = new Date(now.getTime() - 300_000);
  // The run's replica begins after 110 seconds, and is ready 30 seconds later.
  const times = {
    queued_at: new Date(acceptedAt.getTime() + 5_000),
    started_at: new Date(acceptedAt.getTime() + 140_000),
  };
  const result = { body: Buffer.from(JSON.stringify({ result: hostileText })) };
  await insertRun(place, {
    id: coldRun,
    state: "success",
    acceptedAt,
    replicaId,
    statusCode: 200,
    result,
    attempt: 1,
  });
  await db
    .updateTable("runs")
    .set({ ...times, ended_at: new Date(acceptedAt.getTime() + 200_000) })
    .where("id", "=", coldRun)
    .execute();
  const webhookEndpoint = `https://example.org/${hostileText}`;
  const failed = {
    state: "failure",
    statusCode: 500,
    reason: hostileText,
    attempt: 3,
    webhookEndpoint,
  } as const;
  const deadRun = await insertRun(place, { ...failed, path: `/${hostileText}`, replicaId });
  await insertRun(place, { state: "running", attempt: 1, replicaId });
  for (const state of ["success", "failure"] as const) await insertCall(place, { state });
  const pendingRun = await insertRun(place, { reason: "It waits for a replica." });
  const lines = ["begins", hostileText, "a warning"];
  await insertAppLines(
    db,
    lines.map((text, at) => ({
      projectId,
      appId,
      replicaId,
      runId: coldRun,
      text,
      at: acceptedAt.getTime() + 140_000 + at,
      stream: text === "a warning" ? "stderr" : "stdout",
    })),
  );
  return { coldRun, deadRun, pendingRun };
}

/** Nine calls a minute of the last twenty, of which one fails, and none in the five before now. */
async function addHour({ db, appId }: RowsAddress): Promise<void> {
  // Eight of 25 to 50 ms, and one of one to two and a half seconds.
  const durations = Array.from({ length: 19 }, () => 0);
  durations[5] = 8;
  durations[10] = 1;
  for (let minute = 5; minute < 25; minute++) {
    const sample = {
      appId,
      replicaId: "" as const,
      cores: 0,
      memoryBytes: 0,
      gpu: null,
      running: 2,
      ready: minute > 20 ? 1 : 2,
      requests: 9,
      failures: 1,
      durations,
    };
    await addUses(db, [sample], Date.now() - minute * minuteMs);
  }
}

/** One whose build failed, and one whose deploys are paused. */
async function addNeedy(stage: ProjectStage): Promise<void> {
  const broken = await addApp(stage, "a-broken-one");
  await sql`
    update builds set status = 'build_failure', reason = ${hostileText}, ended_at = now() where app_id = ${broken.appId}`.execute(
    broken.db,
  );
  const paused = await addApp(stage, "paused");
  await sql`
    update apps set auto_deploy_paused_at = now(), auto_deploy_paused_reason = ${hostileText}
     where id = ${paused.appId}`.execute(paused.db);
  await addApp(stage, "waits");
}
