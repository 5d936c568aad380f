// A table that scrolls by itself on a narrow screen, or has each row as a card there.
import { Fragment, type ReactNode } from "react";

/** A column: its head, whether its cells are numbers, and what the head means, shown on hover. */
export type Column = {
  readonly head: string;
  readonly isNumber?: boolean;
  readonly about?: string;
};

/** `below`: what is open below the row, over its whole width. */
export type Row = {
  readonly key: string;
  readonly cells: readonly ReactNode[];
  readonly below?: ReactNode;
};

type ListProps = {
  readonly label: string;
  readonly columns: readonly (string | Column)[];
  readonly rows: readonly Row[];
  /**
   * Set when the columns are to be compared: the list stays a table on a phone, where the rows of
   * others become cards.
   */
  readonly isMatrix?: boolean;
  /** Shown in place of a list without rows. */
  readonly empty?: ReactNode;
};

/** So many fit a phone beside each other, unless there are buttons. */
const columnsOfPhone = 3;

/** A list of things of one kind. */
export function List({ label, columns, rows, isMatrix = false, empty }: ListProps): ReactNode {
  if (rows.length === 0 && empty !== undefined) return <div className="empty">{empty}</div>;
  const all = columns.map((column) => (typeof column === "string" ? { head: column } : column));
  const hasActions = all.some(({ head }) => head === "");
  const hasCards = !isMatrix && (hasActions || all.length > columnsOfPhone);
  const classOf = (at: number): string | undefined =>
    all[at]?.isNumber === true ? "number" : undefined;
  return (
    <div className="scroll" tabIndex={0} role="region" aria-label={label}>
      <table aria-label={label} className={hasCards ? "cards" : undefined}>
        <thead>
          <tr>
            {all.map(({ head, about }, at) => (
              <th key={head === "" ? at : head} scope="col" className={classOf(at)} title={about}>
                {head === "" ? <span className="for-readers">Actions</span> : head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(({ key, cells, below }) => (
            <Fragment key={key}>
              <tr>
                {cells.map((cell, at) => (
                  <td key={at} className={classOf(at)} data-head={all[at]?.head}>
                    {cell}
                  </td>
                ))}
              </tr>
              {below === undefined ? null : (
                <tr>
                  <td colSpan={all.length}>{below}</td>
                </tr>
              )}
            </Fragment>
          ))}
        </tbody>
      </table>
    </div>
  );
}
