// Makes program output storable: PostgreSQL takes neither NUL nor lone surrogates, and a line has a
// limit.

/** The maximum length of a stored line in characters; a longer line is cut and says so. */
const lineLengthMax = 65_536;
const cutMark = " … (cut)";

/** The line without NUL, with U+FFFD in place of lone surrogates, at most `lineLengthMax` long. */
export function cleanLine(text: string): string {
  const bounded =
    text.length > lineLengthMax ? text.slice(0, lineLengthMax - cutMark.length) + cutMark : text;
  return bounded.replaceAll("\0", "").toWellFormed();
}
