// Finds what a name means in a repository that has no branch of that name: a tag, or a commit by
// its first digits. Called where files are fetched or looked at. It asks the host; what the host
// says is checked like everything that it sends.
import type { Checked } from "#deploy/checked.ts";
import type { GitResult, GitRun } from "./git-command.ts";
import { isCommit } from "./git-url.ts";

/** Runs git in a folder where commits may be fetched to. */
export type RunGit = (
  args: readonly string[],
  options?: { readonly isRemote?: boolean; readonly onOutput?: NonNullable<GitRun["onOutput"]> },
) => Promise<GitResult>;

const tagPrefix = "refs/tags/";
/** As many as git itself shows, by default, of a commit of a small repository. */
const digitsMin = 7;
/** Commits that begin with the same digits, which a refusal names. */
const namedMax = 4;
/** One line of `git rev-list`: an id of SHA-256. */
const lineBytesMax = 65;

/**
 * Whether it names a tag in full, which is looked for before a branch of the same name: others may
 * be allowed to make branches.
 */
export function isTagName(name: string): boolean {
  return name.startsWith(tagPrefix);
}

/** Whether the text can be the beginning of a commit's id. */
export function isCommitStart(text: string): boolean {
  return new RegExp(`^[0-9a-f]{${digitsMin},64}$`).test(text);
}

/**
 * The full name of the tag; null: there is none. `refs/tags/v1` means the tag, where a branch is
 * called `v1` too.
 */
export async function findTag(run: RunGit, url: string, name: string): Promise<string | null> {
  const tag = isTagName(name) ? name : tagPrefix + name;
  const { output } = await run(["ls-remote", "--tags", "--end-of-options", url, tag], {
    isRemote: true,
  });
  return output.split("\n").some((line) => line.split("\t")[1] === tag) ? tag : null;
}

/**
 * The full id of the one commit of the branches and tags that begins with the digits, of which a
 * full id is taken as it is. Fetches commits alone, where the host can leave out what is in them.
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
  const found = await listCommits(run, digits);
  const [first, ...others] = found;
  if (first === undefined) {
    const reason = `No commit of the branches and tags of ${repository} begins with ${digits}. Has it been pushed?`;
    return { ok: false, reason };
  }
  if (others.length === 0) return { ok: true, value: first };
  const shown = found.slice(0, namedMax).join(", ");
  return {
    ok: false,
    reason: `Several commits of ${repository} begin with ${digits}: ${shown}. Give more digits.`,
  };
}

async function listCommits(run: RunGit, digits: string): Promise<string[]> {
  const found: string[] = [];
  let rest = "";
  await run(["rev-list", "--all"], {
    onOutput: (chunk) => {
      const lines = (rest + chunk.toString("latin1")).split("\n");
      rest = lines.pop() ?? "";
      found.push(...lines.filter((line) => line.startsWith(digits) && isCommit(line)));
      return rest.length <= lineBytesMax && found.length <= namedMax;
    },
  });
  return found;
}
