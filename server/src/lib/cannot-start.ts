// The error for "the platform cannot start like this". `main.ts` prints its message without a stack.

/** A start that cannot go on until the operator does something; the message says what, and holds no secret. */
export class CannotStart extends Error {
  override readonly name = "CannotStart";
}
