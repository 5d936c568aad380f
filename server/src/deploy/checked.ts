// What a check of something given gives; used wherever a build's reason names what is wrong.

/** Either the value, or a sentence that says what is wrong with what was given. */
export type Checked<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly reason: string };
