// Names that people give and other people read, in lists, mails and on terminals.
import type { Field } from "./field.ts";

/**
 * Of 1 to `most` characters. Left out is what other text would be read wrongly by: control characters, ends of lines and
 * those that turn the direction of writing for all that follows (Unicode's explicit bidirectional formatting).
 */
export const shownName = (max: number, about: string) =>
  ({
    kind: "text",
    toml: null,
    form: new RegExp(`^(?=.*\\S)[^\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029\\u202a-\\u202e\\u2066-\\u2069]{1,${max}}$`),
    allowed: `1 to ${max} characters, not only spaces, without control characters`,
    default: null,
    about,
  }) as const satisfies Field;
