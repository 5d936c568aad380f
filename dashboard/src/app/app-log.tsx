// The lines of an app's log that fit a filter, with what is wrong where they cannot be read.
import type { ReactNode } from "react";
import { LogView } from "#parts/log-view.tsx";
import type { AppRef } from "#queries.ts";
import { useAppLines, type LineFilter } from "./app-lines.ts";

type AppLogProps = {
  readonly app: AppRef;
  readonly filter: LineFilter;
  /** The name of the log for screen readers. */
  readonly label: string;
  /** Said when there is no line. */
  readonly empty: string;
};

/** The lines, which are followed as long as they are shown. */
export function AppLog({ app, filter, ...shown }: AppLogProps): ReactNode {
  const { lines, problem, added, isCut, onOlder, onNewest } = useAppLines(app, filter);
  return (
    <>
      <p className="error" role="alert">
        {problem}
      </p>
      <LogView
        lines={lines}
        added={added}
        isCut={isCut}
        onOlder={onOlder}
        onNewest={onNewest}
        {...shown}
      />
    </>
  );
}
