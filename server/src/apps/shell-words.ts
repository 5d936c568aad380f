// Splits a command line into words as a POSIX shell would, without expanding anything.

/**
 * Returns the words of `line`. Null when a quote is not closed, or when `line` ends with a
 * backslash. Quotes and backslashes work as in a shell; `$`, `*` and `|` are plain characters. A
 * backslash at the end of a line continues the line, also where lines end with CR LF.
 */
export function shellWords(line: string): string[] | null {
  const words: string[] = [];
  let word: string | undefined;
  let quote: '"' | "'" | undefined;
  for (let index = 0; index < line.length; index++) {
    // A backslash with CR and LF has three characters. Between single quotes it stays as it is.
    const lineEnd = quote === "'" ? null : /^\\\r?\n/.exec(line.slice(index, index + 3));
    if (lineEnd !== null) {
      // The loop itself skips the last character.
      index += lineEnd[0].length - 1;
      continue;
    }
    const char = line.charAt(index);
    if (quote !== undefined) {
      if (char === quote) quote = undefined;
      // Between double quotes, a backslash escapes only these four characters.
      else if (char === "\\" && quote === '"' && /["\\$`]/.test(line.charAt(index + 1))) {
        index++;
        word += line.charAt(index);
      } else word += char;
    } else if (/[ \t\r\n]/.test(char)) {
      if (word !== undefined) words.push(word);
      word = undefined;
    } else {
      // A quote begins a word, too: two quotes with nothing between them are an empty word.
      word ??= "";
      if (char === '"' || char === "'") quote = char;
      else if (char !== "\\") word += char;
      else {
        index++;
        if (index === line.length) return null;
        word += line.charAt(index);
      }
    }
  }
  if (quote !== undefined) return null;
  if (word !== undefined) words.push(word);
  return words;
}
