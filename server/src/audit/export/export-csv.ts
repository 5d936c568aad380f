// Entries of the audit log as CSV, for spreadsheets. Pure.
import { csvText } from "#lib/csv.ts";
import type { AuditRow } from "#audit/audit-store.ts";
import { timeOfMicros } from "#audit/instant.ts";

/** An entry with its number in its chain. */
export type CsvEntry = AuditRow & { readonly number: number };

/** Each column with a function for its value; null is written as nothing, empty text as `""`. */
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
  // A failed request has an empty id if its path names no resource and its caller is no person.
  ["resource_id", (row) => (row.resource_id === "" ? null : row.resource_id)],
  ["resource_name", (row) => row.resource_name],
  ["request_id", (row) => row.request_id],
  ["address", (row) => row.address],
  ["user_agent", (row) => row.user_agent],
  ["changes", (row) => (row.changes === null ? null : JSON.stringify(row.changes))],
  ["reason", (row) => row.reason],
];

/** The header line. */
export const csvHead = `${columns.map(([name]) => name).join(",")}\r\n`;

/** The line of an entry. */
export function csvLine(row: CsvEntry): string {
  return `${columns.map(([, valueOf]) => csvValue(valueOf(row))).join(",")}\r\n`;
}

function csvValue(value: string | number | null): string {
  return value === null ? "" : csvText(String(value));
}
