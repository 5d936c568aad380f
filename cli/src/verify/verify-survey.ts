// Scans the lines after a faulty one: whether the expected line comes later distinguishes missing
// entries from moved or inserted ones.
import type { EntryLine } from "@slipway/server/src/audit/export/export-format.ts";
import { parseLine, type LineReader } from "./export-reader.ts";

/** The first occurrences of the sought entries and checkpoints, and of the stub. */
export type Survey = {
  readonly entries: ReadonlyMap<number, { readonly line: number; readonly entry: EntryLine }>;
  readonly checkpoints: ReadonlyMap<number, number>;
  /** The line of the stub, or null. */
  readonly stub: number | null;
};

/** Reads to the end of the file. */
export async function surveyRest(reader: LineReader, sought: readonly number[]): Promise<Survey> {
  const entries = new Map<number, { line: number; entry: EntryLine }>();
  const checkpoints = new Map<number, number>();
  let stub: number | null = null;
  for (let next = await reader.next(); next !== undefined; next = await reader.next()) {
    const { line } = next;
    const parsed = parseLine(next.text);
    if (parsed?.kind === "stub") stub ??= line;
    if (parsed?.kind !== "entry" && parsed?.kind !== "checkpoint") continue;
    if (!sought.includes(parsed.number)) continue;
    if (parsed.kind === "checkpoint" && !checkpoints.has(parsed.number))
      checkpoints.set(parsed.number, line);
    if (parsed.kind === "entry" && !entries.has(parsed.number))
      entries.set(parsed.number, { line, entry: parsed });
  }
  return { entries, checkpoints, stub };
}
