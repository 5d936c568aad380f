// Says of an app that serves that its newest build failed, for lists of apps on the command line
// and in the dashboard. Pure.
import type { BuildState } from "./words.ts";

/** What an app's answer says of it. */
export type BuiltApp = {
  readonly status: string;
  readonly liveRelease: number | null;
  readonly lastBuildStatus: BuildState | null;
  readonly lastBuildReason: string | null;
};

const failedStates: readonly (BuildState | null)[] = [
  "build_failure",
  "init_failure",
  "init_timeout",
];

/**
 * `when`: follows "The newest build failed", such as " 3 min ago". Null: its newest build did not
 * fail, or the app never had a release, which its status says.
 */
export function failedBuildNote(app: BuiltApp, when: string): string | null {
  const { status, liveRelease, lastBuildStatus, lastBuildReason } = app;
  if (liveRelease === null || !failedStates.includes(lastBuildStatus)) return null;
  const [line = ""] = (lastBuildReason ?? "").trim().split("\n");
  const failed = `The newest build failed${when}${line === "" ? "." : `: ${sentence(line)}`}`;
  return status === "ACTIVE" ? `${failed} Release v${liveRelease} still takes calls.` : failed;
}

function sentence(line: string): string {
  return /[.!?]$/.test(line) ? line : `${line}.`;
}
