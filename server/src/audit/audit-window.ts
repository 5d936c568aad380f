// Computes which part of the audit log a query reads: the requested period, cut off where retention
// has deleted entries. Pure.
import { Fault } from "#lib/fault.ts";
import { instantOfMs, isAfter, microsFrom, type Instant } from "./instant.ts";

/**
 * Begins at `fromMicros` and ends before `toMicros`, in microseconds since 1970. Without an end
 * (null) it reaches up to the newest entry.
 */
export type AuditWindow = { readonly fromMicros: number; readonly toMicros: number | null };

const dayMs = 86_400_000;

/**
 * The window of a query; null when it is empty, or when retention has deleted all of its entries.
 * Without `to` it has no end.
 * Throws `Fault("invalid")` when `from` is after `to`, or in the future.
 */
export function windowOf(
  { from, to }: { readonly from: Instant | null; readonly to: Instant | null },
  { nowMs, retentionDays }: { readonly nowMs: number; readonly retentionDays: number },
): AuditWindow | null {
  const now = instantOfMs(nowMs);
  if (from !== null && isAfter(from, to ?? now)) {
    const meaning = to === null ? ", which is now when it is left out" : "";
    throw new Fault("invalid", `from is after to${meaning}.`);
  }
  const oldestKept = instantOfMs(nowMs - retentionDays * dayMs);
  const start = from !== null && isAfter(from, oldestKept) ? from : oldestKept;
  if (to !== null && !isAfter(to, start)) return null;
  // Without `to` the window does not end now: entries get their times from the clock for statements
  // (store/database-time.ts), which may be ahead of the clock that `nowMs` comes from.
  return { fromMicros: numberOf(start), toMicros: to === null ? null : numberOf(to) };
}

/** Microseconds as a number, capped at the year 2255: no entry can be later. */
function numberOf(instant: Instant): number {
  const micros = microsFrom(instant);
  return micros > BigInt(Number.MAX_SAFE_INTEGER) ? Number.MAX_SAFE_INTEGER : Number(micros);
}
