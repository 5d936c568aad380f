// Asks git what differs from the main branch, and how many commits there are. What is neither
// committed nor ignored counts too.
import { spawnSync } from "node:child_process";

/** What a short run is chosen by. */
export type Difference = {
  /** What it was compared with; null: nothing was found to compare with. */
  readonly base: string | null;
  /** Paths in the project, also of files that were deleted. */
  readonly changed: readonly string[];
  /** The number of commits up to this one; 0 without git. */
  readonly turn: number;
};

/** The main branch is the first of these that there is. */
const mainBranches = ["origin/HEAD", "origin/main", "main"];

/**
 * The difference of the folder from where it left the main branch, or the `wanted` revision (from
 * SLIPWAY_TEST_BASE). Throws if git does not know that revision.
 */
export function readDifference(folder: string, wanted?: string): Difference {
  const isThere = (name: string): boolean =>
    git(folder, "rev-parse", "--verify", "--quiet", `${name}^{commit}`) !== null;
  if (wanted !== undefined && !isThere(wanted))
    throw new Error(`SLIPWAY_TEST_BASE is "${wanted}", which git does not know here`);
  const turn = Number(git(folder, "rev-list", "--count", "HEAD") ?? "0");
  const base = wanted ?? mainBranch(folder, isThere);
  if (base === null) return { base, changed: [], turn };
  // A shallow clone may lack the commit where the two parted.
  const parted = git(folder, "merge-base", base, "HEAD") ?? base;
  const changed = linesOf(git(folder, "diff", "--name-only", "--no-renames", "-z", parted));
  const added = linesOf(git(folder, "ls-files", "--others", "--exclude-standard", "-z"));
  return { base, changed: [...new Set([...changed, ...added])].sort(), turn };
}

/** On a local main branch it is the commit before: the branch would not differ from itself. */
function mainBranch(folder: string, isThere: (name: string) => boolean): string | null {
  const found = mainBranches.find(isThere) ?? null;
  const isItself = found === "main" && git(folder, "branch", "--show-current") === "main";
  return isItself && isThere("HEAD~1") ? "HEAD~1" : found;
}

function linesOf(answer: string | null): string[] {
  return (answer ?? "").split("\0").filter((path) => path !== "");
}

/** What git answers; null if it fails or is not there. */
function git(folder: string, ...parameters: readonly string[]): string | null {
  const { status, stdout } = spawnSync("git", parameters, {
    cwd: folder,
    encoding: "utf8",
    maxBuffer: 2 ** 26,
  });
  return status === 0 ? stdout.trim() : null;
}
