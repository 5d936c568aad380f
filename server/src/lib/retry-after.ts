// Parses the Retry-After header of an answer. Pure.

/** Returns the requested wait in milliseconds; 0 when the header is missing or unreadable. */
export function retryAfterMs(value: string | null, nowMs: number): number {
  const text = value?.trim() ?? "";
  if (/^\d{1,10}$/.test(text)) return Number(text) * 1000;
  // The dates of HTTP begin with a weekday. Without this check, `Date.parse` accepts nearly
  // anything.
  if (!/^[A-Z][a-z]{2,8}, /.test(text)) return 0;
  const at = Date.parse(text);
  return Number.isNaN(at) ? 0 : Math.max(0, at - nowMs);
}
