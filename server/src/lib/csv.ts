// Values of CSV (RFC 4180) for spreadsheets: what they would take for a formula is written so that they take it for text.
// Used wherever the platform answers CSV. Pure.

/**
 * What spreadsheets may take for a formula (also after spaces and characters that are not seen, and in the wide forms of
 * East Asian text), and what begins like the mark that is put before it, so that taking one mark away gives the value back.
 */
const formula = /^(?:'|[\t\r\n]|[\s\p{Cf}\p{Cc}]*[=+\-@\uff1d\uff0b\uff0d\uff20\u2212])/u;

/** Any text as a value, which no spreadsheet takes for a formula; empty text is `""`. Numbers need none of this. */
export function csvText(text: string): string {
  const safe = formula.test(text) ? `'${text}` : text;
  return safe === "" || /[",\r\n']|^\s|\s$/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
