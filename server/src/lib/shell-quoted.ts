// Quotes text for POSIX shells.

/**
 * Returns the text as one word of a shell command. Between single quotes only a single quote has a
 * meaning, so each one becomes `'\''`: the quotes end, an escaped quote follows, and the quotes
 * begin again.
 */
export function shellQuoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
