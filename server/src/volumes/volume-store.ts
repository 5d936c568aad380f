// Queries of volumes: their sizes, uploads in parts, and addresses to download from.
import { sql } from "kysely";
import type { ProjectId } from "#lib/ids.ts";
import { changeOne, putRows, readRow, type Db, type Tx } from "#store/database.ts";
import { rowsWhere } from "#store/older-rows.ts";
import type { RemovalStep } from "#lib/retention.ts";

/** For how many hours the addresses of an upload accept its parts. */
export const volumeUploadHours = 24;
/** For how many hours an address to download from works. */
const downloadHours = 1;
/** For how many hours after its completion a repeated request to complete an upload is answered. */
const completedHours = 1;

export type VolumeUploadRow = {
  readonly id: string;
  readonly projectId: ProjectId;
  readonly filePath: string;
  readonly partCount: number;
  readonly isComplete: boolean;
};

export type PartRow = {
  readonly number: number;
  readonly sizeBytes: number;
  /** The beginning of the SHA-256 of its bytes; `arriving` for a part that is not complete. */
  readonly digest: string;
};

/** The sizes of all volumes that have one of their own. */
export async function readSizes(
  db: Db,
): Promise<readonly { readonly projectId: ProjectId; readonly sizeGb: number }[]> {
  return await db
    .selectFrom("volumes")
    .select(["project_id as projectId", "size_gb as sizeGb"])
    .execute();
}

/** The size of a project's volume in GB; null: it has no size of its own. */
export async function readSize(db: Db, projectId: ProjectId): Promise<number | null> {
  const row = await db
    .selectFrom("volumes")
    .select("size_gb")
    .where("project_id", "=", projectId)
    .executeTakeFirst();
  return row?.size_gb ?? null;
}

/** Sets the size of a project's volume; the project is locked. */
export async function writeSize(tx: Tx, projectId: ProjectId, sizeGb: number): Promise<void> {
  await putRows(tx, "volumes", ["project_id"], { project_id: projectId, size_gb: sizeGb });
}

/** Adds an upload. */
export async function insertUpload(
  db: Db,
  { keyHash, ...upload }: Omit<VolumeUploadRow, "isComplete"> & { readonly keyHash: Buffer },
): Promise<void> {
  const { id, projectId: project_id, filePath: file_path, partCount: part_count } = upload;
  await db
    .insertInto("volume_uploads")
    .values({ id, project_id, file_path, part_count, key_hash: keyHash })
    .execute();
}

/**
 * The number of uploads of a project that are neither complete nor expired, and the bytes of their
 * parts that may be on disk. `except`: a part that is not counted.
 */
export async function readOpenUploads(
  db: Db,
  projectId: ProjectId,
  except?: { readonly uploadId: string; readonly number: number },
): Promise<{ readonly count: number; readonly bytes: number }> {
  const { uploadId = null, number = null } = except ?? {};
  const { rows } = await sql<{ count: string; bytes: string }>`
    select count(distinct id), coalesce(sum(size_bytes), 0) as bytes
      from volume_uploads left join volume_upload_parts on upload_id = id
       and (upload_id, number) is distinct from (${uploadId}::uuid, ${number}::int)
     where project_id = ${projectId} and completed_at is null and not (${isExpired})`.execute(db);
  // Counts and sums arrive as text, since they may be too large for a number of JavaScript.
  return { count: Number(rows[0]?.count), bytes: Number(rows[0]?.bytes) };
}

const isExpired = sql`created_at < clock_timestamp() - make_interval(hours => ${volumeUploadHours})`;
const uploadColumns = sql`id, project_id as "projectId", file_path as "filePath", part_count as "partCount",
  completed_at is not null as "isComplete"`;

/**
 * The upload whose addresses have the key; undefined when there is none, or its time is over. No
 * locks.
 */
export async function uploadByKey(db: Db, keyHash: Buffer): Promise<VolumeUploadRow | undefined> {
  return await readRow<VolumeUploadRow>(db)`
    select ${uploadColumns} from volume_uploads where key_hash = ${keyHash} and not (${isExpired})`;
}

/**
 * An upload of a project; undefined when there is none with the id, or its time is over. No locks.
 */
export async function uploadById(
  db: Db,
  projectId: ProjectId,
  id: string,
): Promise<VolumeUploadRow | undefined> {
  return await readRow<VolumeUploadRow>(db)`
    select ${uploadColumns} from volume_uploads
     where id = ${id} and project_id = ${projectId} and not (${isExpired})`;
}

/** The parts of an upload that are on disk, by number. */
export async function readParts(db: Db, uploadId: string): Promise<readonly PartRow[]> {
  return await db
    .selectFrom("volume_upload_parts")
    .select(["number", "size_bytes as sizeBytes", "digest"])
    .where("upload_id", "=", uploadId)
    .where("digest", "<>", arriving)
    .orderBy("number")
    .execute();
}

/**
 * The digest of a part that is being written, or that was cut off: some of its bytes are on disk.
 */
const arriving = "";

/** Notes the size of a part before its bytes are written. An earlier version of it is lost then. */
export async function reservePart(
  db: Db,
  uploadId: string,
  part: Omit<PartRow, "digest">,
): Promise<void> {
  await writePart(db, uploadId, { ...part, digest: arriving });
}

/** Notes a part that is on disk as a whole. */
export async function writePart(
  db: Db,
  uploadId: string,
  { number, sizeBytes, digest }: PartRow,
): Promise<void> {
  const part = { upload_id: uploadId, number, size_bytes: sizeBytes, digest };
  await putRows(db, "volume_upload_parts", ["upload_id", "number"], part);
}

/** Marks an upload as complete; false when it was complete before. Locks its row. */
export async function completeVolumeUpload(tx: Tx, id: string): Promise<boolean> {
  return await changeOne(tx)`
    update volume_uploads set completed_at = clock_timestamp() where id = ${id} and completed_at is null`;
}

/** Adds an address to download a file from. */
export async function insertDownload(
  tx: Tx,
  address: { readonly keyHash: Buffer; readonly projectId: ProjectId; readonly filePath: string },
): Promise<void> {
  const download = {
    key_hash: address.keyHash,
    project_id: address.projectId,
    file_path: address.filePath,
  };
  await tx.insertInto("volume_downloads").values(download).execute();
}

/** The file of a download address; undefined when no address has the key, or its time is over. */
export async function downloadByKey(
  db: Db,
  keyHash: Buffer,
): Promise<{ readonly projectId: ProjectId; readonly filePath: string } | undefined> {
  return await db
    .selectFrom("volume_downloads")
    .select(["project_id as projectId", "file_path as filePath"])
    .where("key_hash", "=", keyHash)
    .where(
      "created_at",
      ">",
      sql<Date>`clock_timestamp() - make_interval(hours => ${downloadHours})`,
    )
    .executeTakeFirst();
}

/** Returns which of these ids belong to uploads whose file is still to be moved into its volume. */
export async function readKept(db: Db, ids: readonly string[]): Promise<readonly string[]> {
  const { rows } = await sql<{ id: string }>`
    select id from volume_uploads where id::text = any(${ids}) and completed_at is null`.execute(
    db,
  );
  return rows.map(({ id }) => id);
}

/** The steps that remove rows whose time is over. */
export function oldVolumeRows(db: Db): readonly RemovalStep[] {
  const isOver = sql`${isExpired} or completed_at < clock_timestamp() - make_interval(hours => ${completedHours})`;
  const isBilled = sql`is_metered and ended_at < clock_timestamp() - interval '1 day'`;
  const isOld = sql`created_at < clock_timestamp() - make_interval(hours => ${downloadHours})`;
  return [
    // The parts of an upload are deleted with it, so a batch is small.
    rowsWhere(db, {
      name: "uploads to volumes",
      table: "volume_uploads",
      which: isOver,
      batchMax: 100,
    }),
    rowsWhere(db, { name: "downloads from volumes", table: "volume_downloads", which: isOld }),
    rowsWhere(db, { name: "uses of volumes", table: "volume_uses", which: isBilled }),
  ];
}
