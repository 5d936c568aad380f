// Quotes text for POSIX shells.

/** Returns the text as one word of a shell command. */
export function shellQuoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
