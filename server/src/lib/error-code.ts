// What kind of error the system, the database or a library reports, whatever else its error says.

/** The error's code, such as `ENOENT`; empty: it has none. */
export function errorCode(error: unknown): string {
  return typeof error === "object" && error !== null && "code" in error ? String(error.code) : "";
}
