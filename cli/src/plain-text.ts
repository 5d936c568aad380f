// Texts of strangers on a terminal.

/** The text without what would move a terminal's cursor, change its colours, or turn the direction of writing. */
export function plain(text: string): string {
  return text.replaceAll(/[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "");
}
