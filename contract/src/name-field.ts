// Names that people give and other people read, in lists, mails and on terminals.
import type { Field } from "./field.ts";

/**
 * 1 to `most` characters. Characters that could garble surrounding text are not allowed: control
 * characters, line breaks and Unicode's explicit bidirectional formatting, which reverses the
 * direction of all following text.
 */
export const shownName = (max: number, about: string) =>
  ({
    kind: "text",
    toml: null,
    form: new RegExp(
      `^(?=.*\\S)[^\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029\\u202a-\\u202e\\u2066-\\u2069]{1,${max}}$`,
    ),
    allowed: `1 to ${max} characters, not only spaces, without control characters`,
    default: null,
    about,
  }) as const satisfies Field;
