// Text for a regular expression that matches it as it is; `RegExp.escape` needs Node.js 24.

/** The text with all special characters escaped. */
export function escaped(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`);
}
