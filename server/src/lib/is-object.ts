// Tells objects, as of JSON or tables of TOML, from all other parsed values.

/** True for an object that is no list. The dates of TOML are objects, too. */
export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
