// Where an app's folder is in a git repository that the platform can fetch: the remote's address,
// branch, path.
import { spawnSync } from "node:child_process";
import { Refused } from "./refused.ts";

/** The fields of an app that is deployed from a repository. */
export type GitRef = {
  readonly gitRepo: string;
  readonly gitBranch?: string;
  /** The path of the folder within the repository; absent: its root. */
  readonly gitPath?: string;
  /** Sentences about what the platform will not see. */
  readonly warnings: readonly string[];
};

const gitMs = 20_000;

/**
 * Reads the repository of the folder; `named`: what to deploy instead of the branch that is checked
 * out. Throws `Refused` when there is none, or no remote that names owner and repository.
 */
export function gitRefOf(folder: string, named?: string): GitRef {
  const prefix = git(folder, ["rev-parse", "--show-prefix"]);
  if (prefix === null)
    throw new Refused(`${folder} is in no git repository. Without --git its files are uploaded.`);
  const remote = git(folder, ["config", "--get", "remote.origin.url"]);
  if (remote === null) {
    throw new Refused(
      "The repository has no remote called origin. Add one, or upload the files: leave out --git.",
    );
  }
  const gitRepo = repositoryOf(remote);
  if (gitRepo === null)
    throw new Refused(
      "The remote origin is a path of this machine, where the platform cannot fetch.",
    );
  const branch = named ?? git(folder, ["symbolic-ref", "--short", "HEAD"]);
  const path = prefix.replace(/\/$/, "");
  return {
    gitRepo,
    ...(branch === null ? {} : { gitBranch: branch }),
    ...(path === "" ? {} : { gitPath: path }),
    warnings: named === undefined ? warningsOf(folder, branch === null) : [],
  };
}

/**
 * A remote's address without a user and a password: `https://host/owner/name`,
 * `git@host:owner/name`; null for a path. Pure.
 */
export function repositoryOf(remote: string): string | null {
  const [, scheme, host = "", path = ""] =
    /^(https?|ssh|git):\/\/(?:[^/]*@)?([^/@]+)\/(.+)$/.exec(remote) ?? [];
  if (scheme === "http" || scheme === "https") return `${scheme}://${host}/${path}`;
  // The port is that of ssh.
  if (scheme !== undefined) return `https://${host.replace(/:\d+$/, "")}/${path}`;
  const [, shortHost, shortPath = ""] = /^(?:[^/@:]*@)?([^/@:]+):([^/].*)$/.exec(remote) ?? [];
  return shortHost === undefined ? null : `git@${shortHost}:${shortPath}`;
}

function warningsOf(folder: string, isDetached: boolean): string[] {
  // A submodule has a configuration of its own.
  const status = ["status", "--porcelain", "--ignore-submodules=all", "."];
  const changed = (git(folder, status, withoutFilters(folder)) ?? "") !== "";
  const ahead = Number(git(folder, ["rev-list", "--count", "@{upstream}..HEAD"]) ?? 0);
  const head = isDetached ? git(folder, ["rev-parse", "--short", "HEAD"]) : null;
  const detached = `No branch is checked out here: the app's own branch is deployed. For this commit: --ref ${head}`;
  return [
    ...(head === null ? [] : [detached]),
    ...(changed
      ? ["There are changes that are not committed; the platform builds what was pushed."]
      : []),
    ...(ahead > 0
      ? [`${ahead === 1 ? "1 commit is" : `${ahead} commits are`} not pushed yet.`]
      : []),
  ];
}

type Setting = readonly [name: string, value: string];

/**
 * Settings of every run: a folder that somebody else has packed may name programs, of which none is
 * run.
 */
const settings: readonly Setting[] = [
  ["core.fsmonitor", "false"],
  ["core.hooksPath", "/dev/null"],
];

/** Turns off the programs through which the folder wants its files to be compared. */
function withoutFilters(folder: string): Setting[] {
  const names =
    git(folder, ["config", "--null", "--name-only", "--get-regexp", "^filter\\."])?.split("\0") ??
    [];
  const filters = new Set(names.flatMap((name) => /^(filter\..*)\.[^.]*$/s.exec(name)?.[1] ?? []));
  return [...filters].flatMap((filter): Setting[] => [
    [`${filter}.clean`, ""],
    [`${filter}.process`, ""],
    [`${filter}.required`, "false"],
  ]);
}

/** What git prints; null when it fails. It writes nothing and connects to nobody. */
function git(
  folder: string,
  words: readonly string[],
  more: readonly Setting[] = [],
): string | null {
  const { status, stdout, error } = spawnSync(
    "git",
    ["-C", folder, "--no-optional-locks", ...words],
    {
      encoding: "utf8",
      timeout: gitMs,
      env: {
        ...process.env,
        GIT_ALLOW_PROTOCOL: "",
        GIT_NO_LAZY_FETCH: "1",
        ...configVariables([...settings, ...more]),
      },
    },
  );
  if (error !== undefined && "code" in error && error.code === "ENOENT")
    throw new Refused("git is not installed.");
  return status === 0 ? stdout.trim() : null;
}

/** Returns variables that add settings to those that the person has set. */
function configVariables(config: readonly Setting[]): Record<string, string> {
  const before = Number(process.env["GIT_CONFIG_COUNT"] ?? 0) || 0;
  const pairs = config.flatMap(([name, value], index): Setting[] => [
    [`GIT_CONFIG_KEY_${before + index}`, name],
    [`GIT_CONFIG_VALUE_${before + index}`, value],
  ]);
  return { GIT_CONFIG_COUNT: String(before + config.length), ...Object.fromEntries<string>(pairs) };
}
