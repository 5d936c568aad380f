// Text for POSIX shells.

/** One word with exactly this text. */
export function shellQuoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
