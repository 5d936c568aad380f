// Makes untrusted text safe to be part of one line of output.

/** Puts a space in place of characters that would end the line or change the text's direction. */
export function oneLine(text: string): string {
  return text.replaceAll(/[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]+/g, " ");
}
