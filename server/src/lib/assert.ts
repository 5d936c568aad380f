// Assertions for what must hold if the code is right. A failed one is a bug: the request or the loop turn
// ends with it and the platform goes on.

/** What a broken assertion throws; shown to callers only as an internal error with the request's id. */
export class AssertionFailed extends Error {
  override readonly name = "AssertionFailed";
}

/** Throws `AssertionFailed` with `what` unless `condition` holds. */
export function assert(condition: unknown, what: string): asserts condition {
  if (!condition) throw new AssertionFailed(what);
}

/** The value, when it is neither null nor undefined; else throws `AssertionFailed` with `what`. */
export function must<T>(value: T | null | undefined, what: string): T {
  assert(value !== null && value !== undefined, what);
  return value;
}

/** Makes a switch exhaustive: a new member of the union becomes a type error here. */
export function never(value: never): never {
  throw new AssertionFailed(`unexpected value ${JSON.stringify(value)}`);
}
