// Reads the code of an error of the system, the database or a library.

/** Returns the error's code, such as `ENOENT`; empty when it has none. */
export function errorCode(error: unknown): string {
  return typeof error === "object" && error !== null && "code" in error ? String(error.code) : "";
}
