// Makes what a program printed storable: PostgreSQL takes no NUL and no half characters, and a line has a limit.

/** The most characters of a stored line; what is longer is cut and says so. */
export const lineLengthMax = 65_536;
const cutMark = " … (cut)";

/** The line without NUL, with U+FFFD in place of half characters, at most `lineLengthMax` long. */
export function cleanLine(text: string): string {
  const cut = text.length > lineLengthMax ? text.slice(0, lineLengthMax - cutMark.length) + cutMark : text;
  return cut.replaceAll("\0", "").toWellFormed();
}
