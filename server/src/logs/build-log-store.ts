// Queries for the lines of builds.
import { sql } from "kysely";
import type { AppId, BuildId } from "#lib/ids.ts";
import { changeRows, type Db, type Tx } from "#store/database.ts";
import { notify } from "#store/notify.ts";

/** One line as it arrives. */
export type BuildLine = {
  /** When it was printed, in milliseconds since the epoch. */
  readonly at: number;
  readonly stage: string;
  /** `platform` marks the platform's own messages. */
  readonly stream: "platform" | "stdout" | "stderr";
  readonly line: string;
};

/** One line as stored; numbers of a build start at 1 and have no gaps. */
export type NumberedBuildLine = BuildLine & { readonly number: number };

/**
 * Adds lines after the last one, in one transaction with the notification. A concurrent second
 * writer fails on the primary key.
 */
export async function insertBuildLines(
  db: Db,
  buildId: BuildId,
  lines: readonly BuildLine[],
): Promise<void> {
  await db.transaction().execute((tx) => addBuildLines(tx, buildId, lines));
}

/**
 * Like `insertBuildLines`, for lines that must appear together with other changes of the
 * transaction; all earlier lines must be stored.
 */
export async function addBuildLines(
  tx: Tx,
  buildId: BuildId,
  lines: readonly BuildLine[],
): Promise<void> {
  if (lines.length === 0) return;
  const last = await lastLineNumber(tx, buildId);
  const rows = lines.map((line, index) => ({
    build_id: buildId,
    line_number: last + index + 1,
    at: new Date(line.at),
    stage: line.stage,
    stream: line.stream,
    line: line.line,
  }));
  await tx.insertInto("build_logs").values(rows).execute();
  await notify(tx, "build_logs", buildId);
}

/** The number of a build's last line; 0 when it has none. */
export async function lastLineNumber(db: Db, buildId: BuildId): Promise<number> {
  const row = await db
    .selectFrom("build_logs")
    .select("line_number")
    .where("build_id", "=", buildId)
    .orderBy("line_number", "desc")
    .limit(1)
    .executeTakeFirst();
  return row?.line_number ?? 0;
}

/** Lines with a number above `after`, in order, at most `limit`. */
export async function listBuildLines(
  db: Db,
  buildId: BuildId,
  options: { readonly after: number; readonly limit: number },
): Promise<NumberedBuildLine[]> {
  const rows = await db
    .selectFrom("build_logs")
    .select(["line_number", "at", "stage", "stream", "line"])
    .where("build_id", "=", buildId)
    .where("line_number", ">", options.after)
    .orderBy("line_number")
    .limit(options.limit)
    .execute();
  return rows.map(({ line_number, at, ...rest }) => ({
    number: line_number,
    at: at.getTime(),
    ...rest,
  }));
}

/** True also for a build that does not exist: there will be no more lines. */
export async function hasBuildEnded(db: Db, buildId: BuildId): Promise<boolean> {
  const row = await db
    .selectFrom("builds")
    .select("ended_at")
    .where("id", "=", buildId)
    .executeTakeFirst();
  return row === undefined || row.ended_at !== null;
}

/**
 * Removes at most `limit` lines of builds that ended before `before`, of all apps or of one;
 * returns how many.
 */
export async function deleteOldBuildLines(
  db: Db,
  options: { readonly before: Date; readonly limit: number; readonly appId?: AppId },
): Promise<number> {
  const ofApp = options.appId === undefined ? sql`true` : sql`b.app_id = ${options.appId}`;
  return await changeRows(db)`
    delete from build_logs where (build_id, line_number) in (
      select l.build_id, l.line_number from builds b join build_logs l on l.build_id = b.id
      where ${ofApp} and b.ended_at < ${options.before} limit ${options.limit}
    )`;
}
