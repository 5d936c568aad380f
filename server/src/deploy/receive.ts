// Accepts builds, and requests to cancel them. The API calls it inside its own transactions, so that the build, the
// related change and the audit row commit or roll back together; `queue.ts` does the work.
import { sql } from "kysely";
import type { BuildState } from "@slipway/contract/words.ts";
import { lockApp } from "#apps/app-store.ts";
import type { BuildRef, NewBuild, ReceivedBuild } from "#apps/build-receiver.ts";
import { Fault } from "#lib/fault.ts";
import { newBuildId } from "#lib/ids.ts";
import type { Tx } from "#store/database.ts";
import { toJson } from "#store/json.ts";
import { notify } from "#store/notify.ts";
import { isEnd, buildStatesBefore } from "./build-states.ts";
import { failReleases } from "./release-store.ts";

/** Maximum number of unfinished builds of one app; they wait for each other. */
const unfinishedMax = 50;

/**
 * Adds a build to the queue, status `pending`. Throws `Fault("rate_limited")` when too many builds of the app are
 * unfinished. Locks the app's row.
 */
export async function receiveBuild(tx: Tx, build: NewBuild): Promise<ReceivedBuild> {
  return await insertBuild(tx, { ...build, commit: null, settings: null });
}

/**
 * Adds a build of the same source: the recorded commit and the stored settings of an earlier build as far as it got;
 * for the rest, its original request. Throws `Fault("not_found")` when the build does not belong to the app.
 */
export async function rebuild(tx: Tx, given: BuildRef): Promise<ReceivedBuild> {
  const earlier = await tx
    .selectFrom("builds")
    .select(["request", "config_toml", "commit_sha", "settings"])
    .where("id", "=", given.buildId)
    .where("app_id", "=", given.appId)
    .where("project_id", "=", given.projectId)
    .executeTakeFirst();
  if (earlier === undefined) throw new Fault("not_found", `There is no build ${given.buildId} of this app.`);
  return await insertBuild(tx, {
    projectId: given.projectId,
    appId: given.appId,
    cause: "rebuild",
    request: earlier.request as Readonly<Record<string, unknown>>,
    configToml: earlier.config_toml,
    commit: earlier.commit_sha,
    settings: earlier.settings as object | null,
  });
}

/**
 * Requests cancellation of a build. One that nobody works on is `cancelled` at once; otherwise its worker ends it within about a
 * second. Throws `Fault("not_found")`, or `Fault("conflict")` for a build that has ended. Locks the build's row.
 */
export async function requestCancel(tx: Tx, given: BuildRef): Promise<{ readonly status: BuildState }> {
  const build = await tx
    .selectFrom("builds")
    .select("status")
    .where("id", "=", given.buildId)
    .where("app_id", "=", given.appId)
    .where("project_id", "=", given.projectId)
    .forUpdate()
    .executeTakeFirst();
  if (build === undefined) throw new Fault("not_found", `There is no build ${given.buildId} of this app.`);
  if (isEnd(build.status)) {
    throw new Fault(
      "conflict",
      `The build has already ended, with status ${build.status}; only a running build can be cancelled.`,
    );
  }
  const cancelled = await tx
    .updateTable("builds")
    .set({
      status: "cancelled",
      reason: "Cancelled before it started.",
      cancel_requested_at: sql<Date>`clock_timestamp()`,
      ended_at: sql<Date>`clock_timestamp()`,
      updated_at: sql<Date>`clock_timestamp()`,
    })
    .where("id", "=", given.buildId)
    .where("status", "=", "pending")
    .returning("status")
    .executeTakeFirst();
  if (cancelled === undefined) {
    await tx
      .updateTable("builds")
      .set({
        cancel_requested_at: sql<Date>`coalesce(cancel_requested_at, clock_timestamp())`,
        updated_at: sql<Date>`clock_timestamp()`,
      })
      .where("id", "=", given.buildId)
      .where("status", "in", buildStatesBefore("cancelled"))
      .execute();
  }
  if (cancelled !== undefined) await failReleases(tx, [given.buildId]);
  await notify(tx, "builds", given.buildId);
  return { status: cancelled?.status ?? build.status };
}

async function insertBuild(
  tx: Tx,
  build: NewBuild & { readonly commit: string | null; readonly settings: object | null },
): Promise<ReceivedBuild> {
  // Serializes numbers: adding a build locks the app's row until the transaction ends.
  await lockApp(tx, build.appId);
  const { latest, unfinished } = await tx
    .selectFrom("builds")
    .select([
      sql<number>`coalesce(max(number), 0)`.as("latest"),
      sql<number>`count(*) filter (where ended_at is null)`.as("unfinished"),
    ])
    .where("app_id", "=", build.appId)
    .executeTakeFirstOrThrow();
  if (unfinished >= unfinishedMax) {
    throw new Fault(
      "rate_limited",
      `The app already has ${unfinished} unfinished builds; wait for one to end, or cancel some.`,
      {
        retryAfterSeconds: 30,
      },
    );
  }
  const buildId = newBuildId();
  await tx
    .insertInto("builds")
    .values({
      id: buildId,
      project_id: build.projectId,
      app_id: build.appId,
      number: latest + 1,
      cause: build.cause,
      status: "pending",
      request: toJson(build.request),
      config_toml: build.configToml,
      commit_sha: build.commit,
      settings: build.settings === null ? null : toJson(build.settings),
      created_at: sql<Date>`clock_timestamp()`,
    })
    .execute();
  await notify(tx, "builds", buildId);
  return { buildId, number: latest + 1, status: "pending" };
}
