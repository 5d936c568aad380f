// Reads the message of what was thrown, which need not be an error.

/** Returns the message of an error, and anything else as a text. */
export function errorMessage(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}

/** Returns why a fetch failed: its own error says only that it did, and has the reason as cause. */
export function fetchErrorMessage(error: unknown): string {
  return errorMessage(error instanceof Error && error.cause instanceof Error ? error.cause : error);
}
