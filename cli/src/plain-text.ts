// Makes untrusted text safe to print on a terminal, and measures and cuts it to what fits there.

const steering = /[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
const segments = new Intl.Segmenter();
/** What terminals draw two columns wide. */
const wide =
  /\p{Emoji_Presentation}|[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]/u;

/**
 * The text without control characters that move the cursor, change colours or reverse the writing
 * direction.
 */
export function plain(text: string): string {
  return text.replaceAll(steering, "");
}

/** The same for a text of several lines: its line breaks and tabs stay. */
export function plainLines(text: string): string {
  return text.replaceAll(steering, (character) =>
    character === "\n" || character === "\t" ? character : "",
  );
}

/** As JSON, in which such characters are escaped; it is the same value. */
export function plainJson(value: unknown, indent = 0): string {
  // JSON.stringify has no text for undefined, which is an answer without a body.
  const text = JSON.stringify(value ?? null, null, indent);
  return text.replaceAll(steering, (character) =>
    character === "\n" ? character : `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** How many columns of a terminal the text takes. */
export function widthOf(text: string): number {
  if (/^[\x20-\x7e]*$/.test(text)) return text.length;
  return Array.from(segments.segment(text)).reduce(
    (sum, { segment }) => sum + (wide.test(segment) ? 2 : 1),
    0,
  );
}

/** At most `width` columns of the text; where it is cut, it ends in "…". */
export function cut(text: string, width: number): string {
  if (widthOf(text) <= width) return text;
  let kept = "";
  let used = 1;
  for (const { segment } of segments.segment(text)) {
    used += wide.test(segment) ? 2 : 1;
    if (used > width) break;
    kept += segment;
  }
  return `${kept.trimEnd()}…`;
}

/**
 * Lines of at most `width` columns; words are not broken. Blank lines stay, other line breaks are
 * like spaces.
 */
export function wrapped(text: string, width: number): string[] {
  return text
    .trim()
    .split(/\n\s*\n/)
    .flatMap((paragraph, index) => [
      ...(index === 0 ? [] : [""]),
      ...wrappedParagraph(paragraph, width),
    ]);
}

function wrappedParagraph(text: string, width: number): string[] {
  const lines: string[] = [];
  for (const word of text.split(/\s+/)) {
    const last = lines.at(-1);
    if (last === undefined || last.length + 1 + word.length > width) lines.push(word);
    else lines[lines.length - 1] = `${last} ${word}`;
  }
  return lines;
}
