// Makes untrusted text safe for output that has only one line for it.

/**
 * Replaces with a space each character that would break the line or change the direction of the
 * text after it.
 */
export function oneLine(text: string): string {
  return text.replaceAll(/[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]+/g, " ");
}
