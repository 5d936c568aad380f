// Removes entries of the audit log that are older than the operator wants to keep, in bounded steps. A loop: what one
// turn leaves, the next one finds.
import type { Clock } from "#lib/clock.ts";
import type { Log } from "#lib/log.ts";
import { Loop } from "#lib/loop.ts";
import type { Db } from "#store/database.ts";
import { deleteOldEntries } from "./audit-store.ts";

const dayMs = 86_400_000;
/** Old entries may stay an hour longer; readers do not see them any more. */
const intervalMs = 3_600_000;
const batchMax = 5_000;
/** Steps of one turn: five million entries, more than an hour's worth of a busy platform. */
const stepsMax = 1_000;

/** What retention needs; entries are kept for `retentionDays`. */
export type AuditRetentionOptions = {
  readonly db: Db;
  readonly clock: Clock;
  readonly log: Log;
  readonly retentionDays: number;
};

/** The loop; start and stop it with the platform. */
export function auditRetentionLoop(options: AuditRetentionOptions): Loop {
  const { clock, log } = options;
  const turn = (signal: AbortSignal): Promise<void> => removeOldEntries(options, signal);
  return new Loop({ name: "audit retention", intervalMs, clock, log, turn });
}

/** One turn: removes what is too old, until nothing is left, the bound is reached or `signal` is aborted. */
export async function removeOldEntries(options: AuditRetentionOptions, signal: AbortSignal): Promise<void> {
  const { db, clock, log, retentionDays } = options;
  const before = new Date(clock.now() - retentionDays * dayMs);
  let removed = 0;
  for (let step = 0; step < stepsMax && !signal.aborted; step++) {
    const count = await deleteOldEntries(db, { before, limit: batchMax });
    removed += count;
    if (count < batchMax) break;
  }
  if (removed > 0) log.info({ removed, retentionDays }, "removed old entries of the audit log");
}
