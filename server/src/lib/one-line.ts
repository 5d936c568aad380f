// Texts of strangers in places that have one line for them.

/** The text with a space for what would break the line, or turn the direction of writing of all that follows. */
export function oneLine(text: string): string {
  return text.replaceAll(/[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]+/g, " ");
}
