// A table that scrolls by itself on a narrow screen.
import { Fragment, type ReactNode } from "react";

/** A column: its head, and whether its cells are numbers. */
export type Column = { readonly head: string; readonly isNumber?: boolean };

/** `below`: what is open below the row, over its whole width. */
export type Row = { readonly key: string; readonly cells: readonly ReactNode[]; readonly below?: ReactNode };

type ListProps = {
  readonly label: string;
  readonly columns: readonly (string | Column)[];
  readonly rows: readonly Row[];
  /** Shown in place of a list without rows. */
  readonly empty?: ReactNode;
};

/** A list of things of one kind. */
export function List({ label, columns, rows, empty }: ListProps): ReactNode {
  if (rows.length === 0 && empty !== undefined) return <div className="empty">{empty}</div>;
  const all = columns.map((column) => (typeof column === "string" ? { head: column } : column));
  const classOf = (at: number): string | undefined => (all[at]?.isNumber === true ? "number" : undefined);
  return (
    <div className="scroll" tabIndex={0} role="region" aria-label={label}>
      <table aria-label={label}>
        <thead>
          <tr>
            {all.map(({ head }, at) => (
              <th key={head === "" ? at : head} scope="col" className={classOf(at)}>
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
                  <td key={at} className={classOf(at)}>
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
