// Limits how deeply JSON from outside may be nested, before it is parsed: the parser creates an
// object for each bracket, which takes hundreds of times the memory of the text.

/** Ten times as much as any request to the platform needs. */
const jsonDepthMax = 100;

/** The message for a body that is nested too deeply. */
export const jsonTooDeep = `The JSON is nested more than ${jsonDepthMax} levels deep.`;

const quote = 0x22;
const backslash = 0x5c;

/**
 * True when arrays and objects are nested deeper than `jsonDepthMax`. Says nothing about whether
 * the text is JSON.
 */
export function isTooDeep(text: string): boolean {
  let depth = 0;
  let isInText = false;
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index);
    if (isInText) {
      // A backslash escapes the next character, perhaps a quote.
      if (code === backslash) index++;
      else if (code === quote) isInText = false;
    } else if (code === quote) isInText = true;
    // `[` or `{`, and further down `]` or `}`.
    else if (code === 0x5b || code === 0x7b) {
      depth++;
      if (depth > jsonDepthMax) return true;
    } else if (code === 0x5d || code === 0x7d) depth--;
  }
  return false;
}
