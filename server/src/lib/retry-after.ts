// Reads the field Retry-After of an answer. Pure.

/** How long it asks to wait: seconds or a date. 0 when there is none, or none that can be read. */
export function retryAfterMs(value: string | null, nowMs: number): number {
  const text = value?.trim() ?? "";
  if (/^\d{1,10}$/.test(text)) return Number(text) * 1000;
  // Only dates as HTTP writes them: `Date.parse` takes nearly anything for one.
  if (!/^[A-Z][a-z]{2,8}, /.test(text)) return 0;
  const at = Date.parse(text);
  return Number.isNaN(at) ? 0 : Math.max(0, at - nowMs);
}
