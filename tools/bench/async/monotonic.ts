// The machine's clock that all processes of the benchmark of async runs read, Python's `time.monotonic()` among them.

/** Milliseconds since the machine started. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
