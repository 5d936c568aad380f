// Where the time of a run went: a bar for each part, below each other and to scale.
import type { ReactNode } from "react";
import { durationText } from "#parts/quantities.ts";
import { phasesOf, type TimedRun } from "./run-phases.ts";

type TimelineProps = {
  readonly run: TimedRun & {
    readonly totalResponseTimeMs: number;
    readonly endedAt: string | null;
  };
};

/** The bars, each with what it stands for and how long it took. */
export function RunTimeline({ run }: TimelineProps): ReactNode {
  const phases = phasesOf(run);
  const wholeMs = Math.max(1, ...phases.map(({ beginsMs, lastsMs }) => beginsMs + lastsMs));
  const percent = (ms: number): string => `${(100 * ms) / wholeMs}%`;
  return (
    <ol className="timeline" aria-label="Where its time went">
      {phases.map(({ kind, what, beginsMs, lastsMs }) => (
        <li key={what}>
          <span>{what}</span>
          <span className="track">
            <span
              className="bar"
              data-kind={kind}
              style={{ marginInlineStart: percent(beginsMs), width: percent(lastsMs) }}
            />
          </span>
          <span className="number">{durationText(lastsMs)}</span>
        </li>
      ))}
      <li className="strong">
        <span>{run.endedAt === null ? "So far" : "In all"}</span>
        <span />
        <span className="number">{durationText(run.totalResponseTimeMs)}</span>
      </li>
    </ol>
  );
}
