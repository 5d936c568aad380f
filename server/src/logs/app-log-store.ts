// Queries for the lines that apps print.
import { getOrInsert } from "#lib/get-or-insert.ts";
import { sql } from "kysely";
import type { AppId, AppKey, ReplicaId, RunId } from "#lib/ids.ts";
import { changeRows, type Db, type Tx } from "#store/database.ts";
import { notify } from "#store/notify.ts";

/** One line as it arrives. */
export type AppLine = AppKey & {
  readonly replicaId: ReplicaId;
  /** The call that the line belongs to, if known. */
  readonly runId: RunId | null;
  /** When it was printed, in milliseconds since the epoch. */
  readonly at: number;
  readonly stream: "stdout" | "stderr";
  readonly text: string;
};

/** One line as stored. Ids grow in storage order. */
export type StoredAppLine = AppLine & { readonly id: number };

/** Filters for an app's lines; null or absent: no filter. Times in milliseconds since the epoch. */
export type AppLineFilter = {
  /** The replica, which the API calls a container. */
  readonly container?: ReplicaId | null;
  /** Only lines of this time or later. */
  readonly afterDate?: number | null;
  /** Only lines before this time. */
  readonly beforeDate?: number | null;
  /** Lines that contain this text, ignoring case. */
  readonly search?: string | null;
  readonly stream?: "stdout" | "stderr" | null;
  readonly runId?: RunId | null;
};

/** A line's position in the order of time. */
export type AppLineCursor = { readonly at: number; readonly id: number };

/** Inserts lines in order, in one transaction with a notification for each app. */
export async function insertAppLines(db: Db, lines: readonly AppLine[]): Promise<void> {
  await db.transaction().execute((tx) => addAppLines(tx, lines));
}

/** Like `insertAppLines`, in the caller's transaction. */
export async function addAppLines(tx: Tx, lines: readonly AppLine[]): Promise<void> {
  // Values that many lines share are sent once, in arrays, and each line has the position of its
  // values in these arrays. This is less work than JSON of whole rows.
  const origins = new Map<string, { readonly index: number; readonly line: AppLine }>();
  const indexOfOrigin = (line: AppLine): number => {
    const key = JSON.stringify([line.appId, line.replicaId, line.runId, line.stream]);
    // The elements of arrays in PostgreSQL are counted from 1.
    return getOrInsert(origins, key, () => ({ index: origins.size + 1, line })).index;
  };
  const indexes = lines.map(indexOfOrigin);
  const originLines = [...origins.values()].map(({ line }) => line);
  await sql`
    insert into app_logs (project_id, app_id, replica_id, run_id, at, stream, line)
    select (${originLines.map(({ projectId }) => projectId)}::text[])[place],
           (${originLines.map(({ appId }) => appId)}::text[])[place],
           (${originLines.map(({ replicaId }) => replicaId)}::text[])[place],
           (${originLines.map(({ runId }) => runId)}::uuid[])[place],
           to_timestamp(at / 1000.0),
           (${originLines.map(({ stream }) => stream)}::text[])[place],
           text
      from unnest(
        ${indexes}::integer[], ${lines.map(({ at }) => at)}::float8[], ${lines.map(({ text }) => text)}::text[]
      ) with ordinality as line(place, at, text, number)
     order by number`.execute(tx);
  for (const appId of new Set(lines.map((line) => line.appId))) await notify(tx, "app_logs", appId);
}

/**
 * Assigns lines of a replica to the runs that ended with it: for each stream, the last `limit` of
 * the lines that were printed at `since` or later and belong to no run. Uses the index on replica
 * and time.
 */
export async function assignLastLines(
  db: Db,
  replicaId: ReplicaId,
  ended: { readonly since: number; readonly runIds: readonly RunId[]; readonly limit: number },
): Promise<void> {
  const { since, runIds, limit } = ended;
  const added = sql<RunId[]>`coalesce(ended_run_ids, '{}') || ${runIds}::uuid[]`;
  for (const stream of ["stdout", "stderr"]) {
    const last = sql<number>`(
      select id from app_logs
       where replica_id = ${replicaId} and at >= ${new Date(since)} and run_id is null and stream = ${stream}
       order by at desc, id desc limit ${limit})`;
    await db
      .updateTable("app_logs")
      .set({ ended_run_ids: added })
      .where("id", "in", last)
      .execute();
  }
}

/** The filter, start and size of a page. */
export type AppLinePage = AppLineFilter & {
  readonly direction: "forward" | "backward";
  /** The line before the page; null: the page begins at the first or the last line. */
  readonly from: AppLineCursor | null;
  readonly limit: number;
};

/**
 * A page of lines, ordered by time and then by id. Uses the indexes on app, replica or run. No
 * locks.
 */
export async function listAppLines(
  db: Db,
  appId: AppId,
  page: AppLinePage,
): Promise<StoredAppLine[]> {
  const order = page.direction === "forward" ? "asc" : "desc";
  let query = selectLines(db, appId, page)
    .orderBy("at", order)
    .orderBy("id", order)
    .limit(page.limit);
  if (page.from !== null) {
    const from = sql`(${new Date(page.from.at)}::timestamptz, ${page.from.id}::bigint)`;
    query = query.where(
      order === "asc" ? sql<boolean>`(at, id) > ${from}` : sql<boolean>`(at, id) < ${from}`,
    );
  }
  return (await query.execute()).map(toLine);
}

/** Lines stored after the line with the id `after`, in storage order, at most `limit`. */
export async function listNewAppLines(
  db: Db,
  appId: AppId,
  filter: AppLineFilter & { after: number; limit: number },
): Promise<StoredAppLine[]> {
  const query = selectLines(db, appId, filter)
    .where("id", ">", filter.after)
    .orderBy("id")
    .limit(filter.limit);
  return (await query.execute()).map(toLine);
}

/** The id of the last stored line of any app; 0 when there is none. */
export async function lastAppLineId(db: Db): Promise<number> {
  const row = await db
    .selectFrom("app_logs")
    .select("id")
    .orderBy("id", "desc")
    .limit(1)
    .executeTakeFirst();
  return row?.id ?? 0;
}

/**
 * Removes up to `limit` lines that are older than `before`, of one app or of all, in no order.
 * Returns how many. Uses the index on time, or the one on app and time.
 */
export async function deleteOldAppLines(
  db: Db,
  options: { readonly before: Date; readonly limit: number; readonly appId?: AppId },
): Promise<number> {
  const ofApp = options.appId === undefined ? sql`true` : sql`app_id = ${options.appId}`;
  return await changeRows(db)`
    delete from app_logs where id in (
      select id from app_logs where ${ofApp} and at < ${options.before} limit ${options.limit})`;
}

function selectLines(db: Db, appId: AppId, filter: AppLineFilter) {
  const { container, afterDate, beforeDate, search, stream, runId } = filter;
  let query = db
    .selectFrom("app_logs")
    .select([
      "id",
      "project_id as projectId",
      "app_id as appId",
      "replica_id as replicaId",
      "run_id as runId",
    ])
    .select(["at", "stream", "line as text"])
    .where("app_id", "=", appId);
  if (container) query = query.where("replica_id", "=", container);
  if (runId)
    query = query.where(
      sql<boolean>`(run_id = ${runId} or ended_run_ids @> array[${runId}]::uuid[])`,
    );
  if (stream) query = query.where("stream", "=", stream);
  if (typeof afterDate === "number") query = query.where("at", ">=", new Date(afterDate));
  if (typeof beforeDate === "number") query = query.where("at", "<", new Date(beforeDate));
  if (search) query = query.where(sql<boolean>`position(lower(${search}) in lower(line)) > 0`);
  return query;
}

function toLine({ at, ...line }: LineRow): StoredAppLine {
  return { ...line, at: at.getTime() };
}

type LineRow = Awaited<ReturnType<ReturnType<typeof selectLines>["execute"]>>[number];
