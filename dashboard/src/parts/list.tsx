// A table that scrolls by itself on a narrow screen, or has each row as a card there.
import { Fragment, type ReactNode } from "react";

/** A column: its head, whether its cells are numbers, and what the head means, shown on hover. */
export type Column = { readonly head: string; readonly isNumber?: boolean; readonly about?: string };

/** `below`: what is open below the row, over its whole width. */
export type Row = { readonly key: string; readonly cells: readonly ReactNode[]; readonly below?: ReactNode };

type ListProps = {
  readonly label: string;
  readonly columns: readonly (string | Column)[];
  readonly rows: readonly Row[];
  /** On a phone each row is a card with all its cells, so that none is out of sight. */
  readonly hasCards?: boolean;
  /** Shown in place of a list without rows. */
  readonly empty?: ReactNode;
};

/** A list of things of one kind. */
export function List({ label, columns, rows, hasCards = false, empty }: ListProps): ReactNode {
  if (rows.length === 0 && empty !== undefined) return <div className="empty">{empty}</div>;
  const all = columns.map((column) => (typeof column === "string" ? { head: column } : column));
  const classOf = (at: number): string | undefined => (all[at]?.isNumber === true ? "number" : undefined);
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
