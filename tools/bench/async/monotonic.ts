// The monotonic clock that all processes of the async run benchmark share, including Python's
// `time.monotonic()`.

/** Milliseconds since the machine started. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
