// Computes the part of the audit log that a query reads: the requested times, limited by retention.
// Pure.
import { Fault } from "#lib/fault.ts";
import { instantOfMs, isAfter, microsFrom, type Instant } from "./instant.ts";

/** `from` is included, `to` is not; null: up to the newest entry. */
export type AuditWindow = { readonly fromMicros: number; readonly toMicros: number | null };

const dayMs = 86_400_000;

/**
 * The window of a query; null: nothing in it can still be there. Without `to`, it has no end.
 * Throws `Fault("invalid")` when `from` is after `to`, or in the future.
 */
export function windowOf(
  wanted: { readonly from: Instant | null; readonly to: Instant | null },
  at: { readonly nowMs: number; readonly retentionDays: number },
): AuditWindow | null {
  const { from, to } = wanted;
  const now = instantOfMs(at.nowMs);
  if (from !== null && isAfter(from, to ?? now)) {
    throw new Fault(
      "invalid",
      `from is after to${to === null ? ", which is now when it is left out" : ""}.`,
    );
  }
  const begin = instantOfMs(at.nowMs - at.retentionDays * dayMs);
  const start = from !== null && isAfter(from, begin) ? from : begin;
  if (to !== null && !isAfter(to, start)) return null;
  // Entries carry the database's time, whose clock may be slightly ahead: without `to`, nothing is
  // cut off.
  return { fromMicros: numberOf(start), toMicros: to === null ? null : numberOf(to) };
}

/** Capped at the year 2255: no entry can be later. */
function numberOf(instant: Instant): number {
  const micros = microsFrom(instant);
  return micros > BigInt(Number.MAX_SAFE_INTEGER) ? Number.MAX_SAFE_INTEGER : Number(micros);
}
