// Asserts conditions that always hold if the code is correct. A failed assertion is a bug: it ends
// the request or the turn of the loop, and the platform keeps running.

/** The error of a failed assertion; callers only see an internal error with the request's id. */
class AssertionFailed extends Error {
  override readonly name = "AssertionFailed";
}

/** Throws `AssertionFailed` with `what` unless `condition` holds. */
export function assert(condition: unknown, what: string): asserts condition {
  if (!condition) throw new AssertionFailed(what);
}

/**
 * Returns the value unless it is null or undefined; otherwise throws `AssertionFailed` with `what`.
 */
export function must<T>(value: T | null | undefined, what: string): T {
  assert(value !== null && value !== undefined, what);
  return value;
}

/** Makes a switch exhaustive: a new member of the union becomes a type error here. */
export function never(value: never): never {
  throw new AssertionFailed(`unexpected value ${JSON.stringify(value)}`);
}
