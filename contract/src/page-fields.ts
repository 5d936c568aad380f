// The two parameters of every list that comes page by page: how much a page has, and where it goes on.
import type { Field } from "./field.ts";

/** How many of these things a page has at most: 1 to `most`. */
export const pageSize = (max: number, byDefault: number, things: string) =>
  ({
    kind: "integer",
    toml: null,
    min: 1,
    max,
    default: byDefault,
    about: `Page size: the maximum number of ${things} in a response.`,
  }) as const satisfies Field;

/** Where a page goes on: a token of this form, which `from` of an earlier answer has. */
export const nextToken = <const From extends "nextToken" | "nextPageToken">(from: From, form: RegExp) =>
  ({
    kind: "text",
    toml: null,
    form,
    allowed: `the ${from} of an earlier answer`,
    default: null,
    about: `Goes on after an earlier answer: its ${from}.`,
  }) as const satisfies Field;
