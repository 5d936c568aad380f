// Prints lists as tables and single things as fields: on a terminal fitted to its width, with
// relative times and coloured states; for programs whole and in RFC 3339.
import { withCommands } from "./command-advice.ts";
import type { Machine, Paint } from "./machine.ts";
import { cut, plain, widthOf } from "./plain-text.ts";
import { sinceText } from "./since.ts";

/** A value in a table. Null is shown as "-". */
export type Cell = string | number | boolean | null | undefined | Moment | State;

/** A point in time, in RFC 3339. */
export type Moment = { readonly at: string };

/** The state of something, which is coloured. */
export type State = { readonly state: string };

/** A time as a cell. */
export function moment(at: string | null | undefined): Moment | null {
  return at === null || at === undefined ? null : { at };
}

/** A state as a cell. */
export function state(text: string | null): State | null {
  return text === null ? null : { state: text };
}

const gap = "  ";
/** What is cut to fewer columns says nothing. */
const cutMin = 5;

const paints: readonly (readonly [Paint, RegExp])[] = [
  [
    "green",
    /^(?:active|validated|success|live|ready|running|delivered|built|finished|current|serving)$/i,
  ],
  ["red", /^(?:.*fail(?:ed|ure|ing)|.*timeout|refused|revoked|expired|taken_back)$/i],
  [
    "yellow",
    /^(?:pending|queued|building|initializing|starting|rolling_out|paused|stopped|waiting|terminating)$/i,
  ],
  ["dim", /^(?:cancelled|replaced|ignored|ended|retired|withdrawn)$/i],
];

/** Ids with a random end, and ids that begin with the time: cut, two of them look alike. */
const idForm = /^(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[a-z0-9-]+-[0-9a-f]{10})$/;

/**
 * Prints rows below a header, or where that is too wide each row as lines of its own. Columns of
 * numbers are right-aligned, ids are never cut. Control characters are removed: names are untrusted
 * text.
 */
export function printTable(
  machine: Machine,
  heads: readonly string[],
  rows: readonly (readonly Cell[])[],
): void {
  const texts = rows.map((row) => heads.map((_, index) => cellText(machine, row[index])));
  const isNumber = heads.map((_, index) => isNumeric(rows.map((row) => row[index])));
  const widths = heads.map((head, index) =>
    Math.max(widthOf(head), ...texts.map((row) => widthOf(row[index] ?? ""))),
  );
  const isId = heads.map((_, index) => texts.some((row) => idForm.test(row[index] ?? "")));
  const available = (machine.columns ?? Infinity) - gap.length * (heads.length - 1);
  const fitted = fit(widths, { isId, available });
  if (
    available < 0 ||
    fitted.some((width, index) => width < Math.min(widths[index] ?? 0, cutMin))
  ) {
    return printRecords(machine, heads, rows);
  }
  const line = (cells: readonly string[], paint: (text: string, index: number) => string): string =>
    cells
      .map((cell, index) => {
        const width = fitted[index] ?? 0;
        const shown = cut(cell, width);
        const padding = " ".repeat(width - widthOf(shown));
        return isNumber[index] === true
          ? padding + paint(shown, index)
          : paint(shown, index) + padding;
      })
      .join(gap)
      .trimEnd();
  machine.print(line(heads, (text) => machine.paint("dim", text)));
  for (const [number, row] of texts.entries()) {
    machine.print(line(row, (text, index) => painted(machine, rows[number]?.[index], text)));
  }
}

/**
 * For a terminal that is too narrow for a table: each row as lines of a head and a value, without
 * what is empty.
 */
function printRecords(
  machine: Machine,
  heads: readonly string[],
  rows: readonly (readonly Cell[])[],
): void {
  for (const [number, row] of rows.entries()) {
    if (number > 0) machine.print("");
    const filled = heads.flatMap((head, index) => {
      const cell = row[index];
      return cell === null || cell === undefined || cell === "" ? [] : [[head, cell] as const];
    });
    printFields(machine, Object.fromEntries(filled));
  }
}

/** Prints names and values, one pair on a line; values are cut by nothing. */
export function printFields(machine: Machine, fields: Readonly<Record<string, Cell>>): void {
  const width = Math.max(...Object.keys(fields).map(widthOf));
  for (const [name, cell] of Object.entries(fields)) {
    const label = plain(name) + " ".repeat(width - widthOf(name));
    const text = cellText(machine, cell);
    machine.print(`${machine.paint("dim", label)}${gap}${painted(machine, cell, text)}`.trimEnd());
  }
}

/** The text of a cell on this machine. */
export function cellText({ columns }: Pick<Machine, "columns">, cell: Cell): string {
  if (cell === null || cell === undefined) return "-";
  if (typeof cell !== "object")
    return plain(withCommands(String(cell)).replaceAll(/\s*\n\s*/g, " "));
  if ("state" in cell) return plain(cell.state);
  return plain(columns === null ? cell.at : sinceText(cell.at, Date.now()));
}

function isNumeric(cells: readonly Cell[]): boolean {
  const values = cells.filter((cell) => cell !== null && cell !== undefined);
  return values.length > 0 && values.every((cell) => typeof cell === "number");
}

function painted(machine: Machine, cell: Cell, text: string): string {
  if (typeof cell !== "object" || cell === null || !("state" in cell)) return text;
  const [paint] = paints.find(([, form]) => form.test(cell.state)) ?? [];
  return paint === undefined ? text : machine.paint(paint, text);
}

/**
 * Takes from the widest columns, one step after the other, until they fit; each keeps at least one
 * character, and ids all.
 */
function fit(
  widths: readonly number[],
  { isId, available }: { readonly isId: readonly boolean[]; readonly available: number },
): number[] {
  const fitted = [...widths];
  for (let over = fitted.reduce((sum, width) => sum + width, 0) - available; over > 0; over--) {
    const others = fitted.map((width, index) => (isId[index] === true ? 0 : width));
    const widest = Math.max(...others);
    if (widest <= 1) break;
    fitted[others.lastIndexOf(widest)] = widest - 1;
  }
  return fitted;
}
