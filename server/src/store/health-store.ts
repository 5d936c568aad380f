// Asks the database whether it takes writes, for the probes of the platform.
import { readRow, type Db } from "./database.ts";

/**
 * True when the database takes writes. Commits a few bytes to the write-ahead log, which also
 * detects a full or read-only disk; stores nothing.
 */
export async function takesWrites(db: Db): Promise<boolean> {
  const row = await readRow<{ readonly setting: string }>(db)`
    select current_setting('transaction_read_only') as setting, pg_logical_emit_message(true, 'slipway', 'health')`;
  return row?.setting === "off";
}
