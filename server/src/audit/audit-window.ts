// Which part of the audit log a query reads: what was asked for, no further back than the log is kept. Pure.
import { Fault } from "#lib/fault.ts";
import { instantOfMs, isAfter, microsFrom, type Instant } from "./instant.ts";

/** `from` included, `to` not; null: up to the newest entry. */
export type AuditWindow = { readonly fromMicros: number; readonly toMicros: number | null };

const dayMs = 86_400_000;

/**
 * The window of a query at a time; null: nothing can be in it. Throws `Fault("invalid")` when `from` is after `to`, which
 * is the present where it was left out.
 */
export function windowOf(
  wanted: { readonly from: Instant | null; readonly to: Instant | null },
  at: { readonly nowMs: number; readonly retentionDays: number },
): AuditWindow | null {
  const { from, to } = wanted;
  const now = instantOfMs(at.nowMs);
  if (from !== null && isAfter(from, to ?? now)) {
    throw new Fault("invalid", `from is after to${to === null ? ", which is now when it is left out" : ""}.`);
  }
  const begin = instantOfMs(at.nowMs - at.retentionDays * dayMs);
  const start = from !== null && isAfter(from, begin) ? from : begin;
  if (to !== null && !isAfter(to, start)) return null;
  // Entries have the time of the database, whose clock may be a little ahead: without `to`, nothing is cut off.
  return { fromMicros: numberOf(start), toMicros: to === null ? null : numberOf(to) };
}

/** The year 2255 at most: entries of later times there cannot be. */
function numberOf(instant: Instant): number {
  const micros = microsFrom(instant);
  return micros > BigInt(Number.MAX_SAFE_INTEGER) ? Number.MAX_SAFE_INTEGER : Number(micros);
}
