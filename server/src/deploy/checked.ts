// The result of a check of user input, used wherever a build's reason explains what is wrong.

/** Either the value, or a sentence that says what is wrong with the input. */
export type Checked<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly reason: string };
