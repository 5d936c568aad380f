// JSON on its way into the database. The driver would send an array as a PostgreSQL array and a string as it is;
// columns of type jsonb therefore take only what `toJson` made.

declare const brand: unique symbol;

/** Text that is JSON. */
export type JsonText = string & { readonly [brand]: "JsonText" };

/** JSON text of a value; fields that are undefined are left out. */
export function toJson(value: object | string | number | boolean | null): JsonText {
  return JSON.stringify(value) as JsonText;
}
