// The error of a platform that cannot start because of its settings or its machine.
// `run-platform.ts` prints its message without a stack.

/**
 * The platform cannot start until the operator acts; the message says what to do, and holds no
 * secret.
 */
export class CannotStart extends Error {
  override readonly name = "CannotStart";
}
