// Prepares JSON for the database. The driver would send an array as a PostgreSQL array and a string
// as it is; columns of type jsonb therefore only take the output of `toJson`.

declare const brand: unique symbol;

/** A text that is valid JSON. */
export type JsonText = string & { readonly [brand]: "JsonText" };

/** The JSON text of a value; undefined fields are left out. */
export function toJson(value: object | string | number | boolean | null): JsonText {
  return JSON.stringify(value) as JsonText;
}
