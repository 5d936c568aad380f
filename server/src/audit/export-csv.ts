// Entries of the audit log as CSV (RFC 4180), for spreadsheets: what they would take for a formula is written so that they
// take it for text. Pure.
import type { AuditRow } from "./audit-store.ts";
import { timeOfMicros } from "./instant.ts";

/** An entry, and its number in its chain. */
export type CsvEntry = AuditRow & { readonly number: number };

/** Each column and where its value comes from; null is an empty value, empty text is `""`. */
const columns: readonly (readonly [string, (row: CsvEntry) => string | number | null])[] = [
  ["number", (row) => row.number],
  ["id", (row) => row.id],
  ["timestamp", (row) => timeOfMicros(row.at_micros)],
  ["action", (row) => row.action],
  ["outcome", (row) => row.outcome],
  ["actor_type", (row) => row.actor_type],
  ["actor_id", (row) => row.actor_id],
  ["actor_name", (row) => row.actor_name],
  ["resource_type", (row) => row.resource_type],
  ["resource_id", (row) => (row.resource_id === "" ? null : row.resource_id)],
  ["resource_name", (row) => row.resource_name],
  ["request_id", (row) => row.request_id],
  ["address", (row) => row.address],
  ["user_agent", (row) => row.user_agent],
  ["changes", (row) => (row.changes === null ? null : JSON.stringify(row.changes))],
  ["reason", (row) => row.reason],
];

/**
 * What spreadsheets may take for a formula (also after spaces and characters that are not seen, and in the wide forms of
 * East Asian text), and what begins like the mark that is put before it, so that taking one mark away gives the value back.
 */
const formula = /^(?:'|[\t\r\n]|[\s\p{Cf}\p{Cc}]*[=+\-@\uff1d\uff0b\uff0d\uff20\u2212])/u;

/** The line of names. */
export const csvHead = `${columns.map(([name]) => name).join(",")}\r\n`;

/** One line. */
export function csvLine(row: CsvEntry): string {
  return `${columns.map(([, valueOf]) => csvValue(valueOf(row))).join(",")}\r\n`;
}

function csvValue(value: string | number | null): string {
  if (value === null) return "";
  const text = String(value);
  const safe = formula.test(text) ? `'${text}` : text;
  return safe === "" || /[",\r\n']|^\s|\s$/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
