// Turns an error of git into a sentence that the app's owner understands and can act on. Pure.
import { buildAgain, changeAndBuild, changeField } from "@slipway/contract/advice.ts";
import { failingLine } from "#lib/failing-line.ts";

/** The facts that the sentence may mention, none of them secret. */
export type GitFailure = {
  /** `owner/repo`, or an address that has the host. */
  readonly repository: string;
  readonly host: string;
  readonly hasCredential: boolean;
  /** True for a submodule: another repository names its address and its commit. */
  readonly isSubmodule?: boolean;
  /** All of git's standard error, with credentials removed. */
  readonly output: string;
};

type Rule = { readonly form: RegExp; readonly sentence: (failure: GitFailure) => string };

const rules: readonly Rule[] = [
  // Must be first: when one of git's processes is killed, the error of git looks as if the host had
  // closed the connection.
  {
    form: /attempting to allocate \d+ over limit/i,
    sentence: ({ repository }) =>
      `${repository} contains an object that takes more memory to unpack than a build may use. Keep large files elsewhere.`,
  },
  {
    form: /out of memory|cannot allocate memory|unable to create thread/i,
    sentence: ({ repository }) =>
      `git needs more memory for ${repository} than a build may use: it contains or references too much.`,
  },
  {
    // Signal 24 (SIGXCPU) means too much processor time. This rule must come before the rules about
    // connections: a killed process prints nothing, only the process that waits for it does. All
    // that the latter says may be that the output of `index-pack` is invalid. The second half of
    // the form matches this text if no other error is there than errors of `fetch-pack`.
    form: /died of signal (9|24)\b|^(?![^]*(fatal|error): (?!fetch-pack))[^]*invalid index-pack output/i,
    sentence: ({ repository }) =>
      `${repository} takes git more CPU time or memory to unpack than a build may use. Make it smaller.`,
  },
  {
    // These signals, SIGABRT and SIGSEGV, come from an error in git.
    form: /died of signal (6|11)\b|segmentation fault|maximum allowed tree depth/i,
    sentence: ({ repository }) => `${repository} contains objects on which git itself fails.`,
  },
  {
    form: /did not receive expected object|did not send all necessary objects/i,
    sentence: ({ repository }) => `${repository} lacks objects that its commit refers to.`,
  },
  {
    form: /redirect|returned error: 30\d/i,
    sentence: (failure) =>
      `${failure.host} redirects ${failure.repository} to another address, and redirects are not followed. Has the repository been renamed or moved? ${correctAddress(failure)}.`,
  },
  {
    form: /Host key verification failed/i,
    sentence: ({ host }) =>
      `The SSH host key of ${host} is not the one that was seen before. If the host has changed its key, ask the operator to remove the old one from the known hosts of this project.`,
  },
  {
    form: /Could not resolve host|Name or service not known|Temporary failure in name resolution/i,
    sentence: ({ host }) =>
      `The name of the git host ${host} cannot be resolved from this machine.`,
  },
  {
    form: /Connection refused|Failed to connect|Connection timed out|Network is unreachable|No route to host|Connection reset|Couldn't connect/i,
    sentence: ({ host }) =>
      `The git host ${host} cannot be reached from this machine. When it can, ${buildAgain}.`,
  },
  {
    form: /certificate|SSL|TLS/i,
    sentence: ({ host }) =>
      `The connection to the git host ${host} is not trusted: its certificate was refused.`,
  },
  {
    form: /Operation too slow|early EOF|hung up unexpectedly|RPC failed|returned error: 5\d\d|unexpected disconnect/i,
    sentence: ({ host, repository }) =>
      `The git host ${host} closed the connection while ${repository} was being fetched. Please ${buildAgain}.`,
  },
  {
    form: /not our ref|unadvertised object|couldn't find remote ref/i,
    sentence: ({ repository, isSubmodule = false }) => {
      const advice = isSubmodule
        ? "Push it there, or set the submodule to another commit"
        : "Build the app's branch (POST …/apps/{app}/builds without a commit), or set gitBranch to a branch, a tag or a commit that is there";
      return `The commit is not in ${repository}, or no longer (was the branch force-pushed?). ${advice}.`;
    },
  },
  {
    form: /fsck error|fsck|index-pack|invalid .*object|unpack/i,
    sentence: ({ repository }) =>
      `${repository} contains objects that git refuses as malformed; see its messages above.`,
  },
  // The last two rules must come after the others: ssh prints a read error after every failure.
  {
    form: /Permission denied \(|Authentication failed|could not read (Username|Password)|terminal prompts disabled|returned error: 40[13]|Could not read from remote repository/i,
    sentence: refused,
  },
  {
    form: /repository .*not found|returned error: 404|does not appear to be a git repository/i,
    sentence: refused,
  },
];

/** The sentence for a failed fetch; it ends with git's own reason when no rule matches. */
export function explainGitFailure(failure: GitFailure): string {
  // Addresses and names are in quotes; their content must not match.
  const unquoted = failure.output.replaceAll(/'[^'\n]*'/g, "''");
  const rule = rules.find(({ form }) => form.test(unquoted));
  if (rule !== undefined) return rule.sentence(failure);
  const line = failingLine(failure.output).slice(0, 300);
  const end = line === "" ? "." : `: ${line}`;
  return `git could not fetch ${failure.repository}${end}`;
}

/** True when a fetch has failed because the branch does not exist. */
export function isBranchMissing({ errorOutput }: { readonly errorOutput: string }): boolean {
  return /couldn't find remote ref/i.test(errorOutput);
}

/** The sentence for a missing branch. It names some of `branches`, which exist. */
export function explainMissingBranch(missing: {
  readonly repository: string;
  readonly branch: string;
  readonly branches: readonly string[];
}): string {
  const { repository, branch, branches } = missing;
  if (branches.length === 0)
    return `${repository} has no branches yet: push a commit to "${branch}", then ${buildAgain}.`;
  const named = branches
    .slice(0, 10)
    .map((name) => name.slice(0, 100))
    .join(", ");
  const others = branches.length > 10 ? ` and ${branches.length - 10} more` : "";
  const how = `Name one of them, a tag, or a commit by 7 of its digits or more, as the branch of the build or as gitBranch (${changeField}), and ${buildAgain}.`;
  return `The branch "${branch}" does not exist in ${repository}; it has: ${named}${others}. ${how}`;
}

function refused(failure: GitFailure): string {
  const { repository, host, hasCredential } = failure;
  const isAddress = repository.includes("://");
  const where = host === "" || isAddress ? "" : ` on ${host}`;
  const correct = correctAddress(failure);
  if (hasCredential)
    return `${repository}${where} does not exist, or the git credential that this project has for ${host} is not allowed to read it. ${correct}, or the credential (PUT …/git-credentials/{host}) and ${buildAgain}.`;
  const hostName = host === "" ? "it" : host;
  return `${repository}${where} does not exist, or it is private: this project has no git credential for ${hostName}. ${correct}, or add a credential (PUT …/git-credentials/{host}) and ${buildAgain}.`;
}

function correctAddress({ isSubmodule = false }: GitFailure): string {
  return isSubmodule ? "Correct its address in .gitmodules" : `Correct gitRepo (${changeAndBuild})`;
}
