// Writes CSV values (RFC 4180) that spreadsheets never take for a formula. Used wherever the
// platform answers CSV. Pure.

/**
 * Matches text that a spreadsheet may take for a formula, also after spaces and invisible
 * characters, and in the wide forms of East Asian text. Also matches text that begins with `'`, the
 * escape mark itself, so that removing one mark always restores the value.
 */
const formula = /^(?:'|[\t\r\n]|[\s\p{Cf}\p{Cc}]*[=+\-@\uff1d\uff0b\uff0d\uff20\u2212])/u;

/**
 * Writes any text as a value that no spreadsheet takes for a formula; empty text is written as
 * `""`. Numbers are written without this function.
 */
export function csvText(text: string): string {
  const safe = formula.test(text) ? `'${text}` : text;
  const needsQuotes = safe === "" || /[",\r\n']|^\s|\s$/.test(safe);
  return needsQuotes ? `"${safe.replaceAll('"', '""')}"` : safe;
}
