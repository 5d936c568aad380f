// Makes untrusted text safe to print on a terminal.

/** The text without control characters that move the cursor, change colours or reverse the writing direction. */
export function plain(text: string): string {
  return text.replaceAll(/[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "");
}
