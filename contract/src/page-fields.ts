// The two parameters of every paginated list, the page size and the page token, and the text that
// some lists are searched for.
import type { Field } from "./field.ts";

/** The maximum number of items on a page: 1 to `most`. */
export const pageSize = (max: number, byDefault: number, things: string) =>
  ({
    kind: "integer",
    toml: null,
    min: 1,
    max,
    default: byDefault,
    about: `Page size: the maximum number of ${things} in a response.`,
  }) as const satisfies Field;

/** The page token, in this format, from the field `from` of the previous answer. */
export const nextToken = <const From extends "nextToken" | "nextPageToken">(
  from: From,
  form: RegExp,
) =>
  ({
    kind: "text",
    toml: null,
    form,
    allowed: `the ${from} of an earlier answer`,
    default: null,
    about: `Goes on after an earlier answer: its ${from}.`,
  }) as const satisfies Field;

/** A part of a name. */
export const searchText = (about: string, defaultAbout: string) =>
  ({
    kind: "text",
    toml: null,
    form: /^[^\x00-\x1f\x7f]{1,100}$/,
    allowed: "1 to 100 characters",
    default: null,
    defaultAbout,
    about,
  }) as const satisfies Field;
