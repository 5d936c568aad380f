// Checks that an export continues an earlier one of the same log. Only this detects a log whose end
// was cut off and rewritten, which an owner of the database can do, and have signed.
import type {
  ChainPosition,
  ExportHeader,
} from "@slipway/server/src/audit/export/export-format.ts";
import { broken, type Broken, type Intact, type Unverifiable } from "./verdict.ts";

/**
 * Checks the header line; null: no contradiction. `earlier`: an export that was verified as intact.
 */
export function headerFault(header: ExportHeader, earlier: Intact): Broken | Unverifiable | null {
  const { number } = earlier.through;
  if (header.project !== earlier.project) {
    return unverifiable(
      "The earlier export is from a different project: there is nothing to compare.",
    );
  }
  if (header.after.number > number) {
    const gone = `Retention has removed the entries up to ${header.after.number}`;
    return unverifiable(
      `${gone}, but the earlier export ends with ${number}: there is nothing to compare.`,
    );
  }
  if (header.through.number < number) {
    const ends = `This export ends with entry ${header.through.number}, but the earlier one with ${number}`;
    return broken(
      "truncated",
      1,
      number,
      `${ends}: the log was cut off, or this export is the older one.`,
    );
  }
  return positionFault(header.after, 1, earlier);
}

/** Checks a chain position that is known after a line; null: no contradiction. */
export function positionFault(
  position: ChainPosition,
  line: number,
  { through, exportedAt }: Intact,
): Broken | null {
  if (position.number !== through.number || position.hash === through.hash) return null;
  const what = `Not all entries up to ${position.number} match the earlier export from ${exportedAt}`;
  return broken("altered", line, position.number, `${what}: the log was rewritten since.`);
}

function unverifiable(message: string): Unverifiable {
  return { result: "unverifiable", message };
}
