// Finds the tag or the commit that a name means: either the name is the full name of a tag, or the
// repository has no branch of that name. A commit may be named by its first digits. `git.ts` and
// `git-remote.ts` call these functions before they fetch. The git host is asked, but not trusted.
import type { Checked } from "#deploy/checked.ts";
import type { GitResult, GitRun } from "./git-command.ts";
import { isCommit } from "./git-url.ts";

/** Runs git in a folder where commits may be fetched to. */
export type RunGit = (
  args: readonly string[],
  options?: { readonly isRemote?: boolean; readonly onOutput?: NonNullable<GitRun["onOutput"]> },
) => Promise<GitResult>;

const tagPrefix = "refs/tags/";
/** As many digits as git shows by default for the commits of a small repository. */
const digitsMin = 7;
/** How many commits a refusal lists when several begin with the same digits. */
const listedMax = 4;
/** The longest line of `git rev-list`: a SHA-256 id and its line end. */
const lineBytesMax = 65;

/**
 * Whether the name is the full name of a tag. Such a tag takes precedence over a branch of the same
 * name, since more people may be allowed to create branches than tags.
 */
export function isTagName(name: string): boolean {
  return name.startsWith(tagPrefix);
}

/** Whether the text can be the beginning of a commit's id. A SHA-256 id has 64 digits. */
export function isCommitStart(text: string): boolean {
  return new RegExp(`^[0-9a-f]{${digitsMin},64}$`).test(text);
}

/**
 * The full name of the tag; null: there is none. `name` may be the full name, such as
 * `refs/tags/v1`, or `v1`.
 */
export async function findTag(run: RunGit, url: string, name: string): Promise<string | null> {
  const tag = isTagName(name) ? name : tagPrefix + name;
  const { output } = await run(["ls-remote", "--tags", "--end-of-options", url, tag], {
    isRemote: true,
  });
  // Each line is an id, a tab and a name. git takes `tag` as a pattern that other names can match.
  return output.split("\n").some((line) => line.split("\t")[1] === tag) ? tag : null;
}

/**
 * The id of the only commit in the branches and tags that begins with the digits; a full id is
 * returned unchecked. Fetches commits without their files, if the host supports that. Returns a
 * reason when no commit or several begin with the digits, and git's result when the fetch failed.
 */
export async function findCommit(
  run: RunGit,
  {
    url,
    repository,
    digits,
  }: { readonly url: string; readonly repository: string; readonly digits: string },
): Promise<Checked<string> | GitResult> {
  if (isCommit(digits)) return { ok: true, value: digits };
  const fetched = await run(
    [
      "fetch",
      "--quiet",
      "--filter=tree:0",
      "--no-tags",
      "--no-recurse-submodules",
      "--no-write-fetch-head",
      "--end-of-options",
      url,
      "+refs/heads/*:refs/slipway/heads/*",
      "+refs/tags/*:refs/slipway/tags/*",
    ],
    { isRemote: true },
  );
  if (!fetched.isOk) return fetched;
  const commits = await listCommits(run, digits);
  const [first, ...others] = commits;
  if (first === undefined) {
    const reason = `No commit of the branches and tags of ${repository} begins with ${digits}. Has it been pushed?`;
    return { ok: false, reason };
  }
  if (others.length === 0) return { ok: true, value: first };
  const list = commits.slice(0, listedMax).join(", ");
  return {
    ok: false,
    reason: `Several commits of ${repository} begin with ${digits}: ${list}. Give more digits.`,
  };
}

/** The commits that begin with the digits. Stops soon after it has found more than `listedMax`. */
async function listCommits(run: RunGit, digits: string): Promise<string[]> {
  const found: string[] = [];
  let rest = "";
  await run(["rev-list", "--all"], {
    onOutput: (chunk) => {
      const lines = (rest + chunk.toString("latin1")).split("\n");
      // The last line may be incomplete: it is put before the next chunk.
      rest = lines.pop() ?? "";
      found.push(...lines.filter((line) => line.startsWith(digits) && isCommit(line)));
      // False ends git: a line is longer than any id, or enough commits were found.
      return rest.length <= lineBytesMax && found.length <= listedMax;
    },
  });
  return found;
}
