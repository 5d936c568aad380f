// Reads the message of what was thrown, which need not be an error.

/** Returns the message of an error, and anything else as a text. */
export function errorMessage(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}
