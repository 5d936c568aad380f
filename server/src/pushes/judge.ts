// Decides what a push means for an app: first from what the host says, later from what git says of
// the branch. Pure.
import type { GitVerdict } from "@slipway/contract/words.ts";
import { repositoryPath, type GitHosts } from "#apps/repository.ts";
import type { RefUpdate } from "./push-bodies.ts";

/**
 * The settings of an app that decide about pushes. `gitPath` is normalized: `a/b`, or "" for the
 * root.
 */
export type PushedApp = {
  readonly gitRepo: string;
  readonly gitBranch: string;
  readonly gitPath: string;
  /**
   * Other folders and files of the repository that are in the app, by links; null: nobody knows.
   */
  readonly sharedPaths: readonly string[] | null;
  readonly gitAutoDeploy: boolean;
  /** Why automatic deployments are paused; null: they are not. */
  readonly pausedReason: string | null;
  readonly isStopped: boolean;
};

/** A verdict, and why. */
export type Judgement = { readonly verdict: GitVerdict; readonly reason: string };

const skipMark = /\[skip deploy\]/i;
const branchPrefix = "refs/heads/";

/**
 * The update that concerns the app's branch and waits for git, or why nothing is deployed; `isOwn`:
 * it is of that branch, `isForeign`: of another repository.
 */
export function judgePush(
  app: PushedApp,
  push: {
    readonly event: string;
    readonly updates: readonly RefUpdate[];
    readonly repository?: string | null;
  },
  hosts: GitHosts,
): Judgement & {
  readonly update: RefUpdate | undefined;
  readonly isOwn: boolean;
  readonly isForeign: boolean;
} {
  const { event, updates, repository = null } = push;
  const update = updates.find(({ ref }) => ref === branchPrefix + app.gitBranch);
  const [other] = updates;
  const shown = update ?? other;
  const isForeign = !isOf(repository, repositoryPath(app.gitRepo, hosts));
  const isOwn = update !== undefined && !isForeign;
  if (shown === undefined)
    return { ...ignored(`the event ${event} is not a push`), update: shown, isOwn, isForeign };
  const reason = isForeign
    ? `${repository} is not ${app.gitRepo}`
    : refReason(app, { update, shown });
  if (reason !== null) return { ...ignored(reason), update: shown, isOwn, isForeign };
  const waits = app.isStopped
    ? "the app is stopped; this waits for its start"
    : "the branch is about to be read";
  return { ...(judgeApp(app) ?? { verdict: "waiting", reason: waits }), update, isOwn, isForeign };
}

/** `repository` is `owner/name`, maybe below groups that only SLIPWAY_GIT_URL names. */
function isOf(repository: string | null, path: string): boolean {
  if (repository === null) return true;
  const sent = repository.toLowerCase();
  const own = path.toLowerCase();
  return sent === own || sent.endsWith(`/${own}`);
}

/** The verdict on every push of an app that is not deployed automatically; null: it is. */
export function judgeApp({ gitAutoDeploy, pausedReason }: PushedApp): Judgement | null {
  if (!gitAutoDeploy) return ignored("gitAutoDeploy is false");
  return pausedReason === null ? null : ignored(`paused: ${pausedReason}`);
}

function refReason(
  { gitBranch }: PushedApp,
  { update, shown }: { readonly update: RefUpdate | undefined; readonly shown: RefUpdate },
): string | null {
  if (update !== undefined) return update.after === null ? `branch ${gitBranch} was deleted` : null;
  if (shown.ref.startsWith(branchPrefix))
    return `branch ${shown.ref.slice(branchPrefix.length)} is not ${gitBranch}`;
  return `tag ${shown.ref.replace(/^refs\/tags\//, "")} is not a branch`;
}

/**
 * Whether a push changes the app's folder, or what is shared with it; null: git has to be asked.
 */
export function isFolderTouched(
  { gitPath, sharedPaths }: Pick<PushedApp, "gitPath" | "sharedPaths">,
  update: RefUpdate,
): boolean | null {
  const folders = [gitPath, ...(sharedPaths ?? [])].map((folder) => ({
    folder,
    below: `${folder}/`,
  }));
  const isIn = (file: string): boolean =>
    folders.some(({ folder, below }) => folder === "" || file === folder || file.startsWith(below));
  if (gitPath === "" || update.files.some(isIn)) return true;
  return update.isComplete && sharedPaths !== null ? false : null;
}

/**
 * What several waiting pushes say together; `same` is the newest commit whose folder is that of the
 * latest build.
 */
export function areTouched(
  pushes: readonly { readonly before_sha: string | null; readonly is_touched: boolean | null }[],
  same: string | null,
): boolean | null {
  if (pushes.some((push) => push.is_touched === true)) return true;
  const [only] = pushes;
  return pushes.length === 1 && only?.is_touched === false && only.before_sha === same
    ? false
    : null;
}

/** A commit of the branch in relation to what the app has built and seen. */
export type BranchHead = {
  readonly commit: string;
  readonly message: string;
  /** It was judged before, and nobody asks for it again. */
  readonly isSeen: boolean;
  /** Null: the older commit is gone, so they cannot be compared. */
  readonly isTouched: boolean | null;
};

/** The verdict on the newest commit of the app's branch. */
export function judgeHead(app: PushedApp, head: BranchHead): Judgement {
  const commit = head.commit.slice(0, 7);
  if (head.isSeen)
    return ignored(`${commit} is still the newest commit of ${app.gitBranch}, and nothing new`);
  if (skipMark.test(head.message)) return ignored(`the message of ${commit} says [skip deploy]`);
  if (head.isTouched === false) return ignored(untouched(app));
  return { verdict: "built", reason: `a build of ${commit} was started` };
}

function untouched({ gitPath, sharedPaths }: PushedApp): string {
  const shared = sharedPaths ?? [];
  const links =
    shared.length === 0 ? "" : `, or where its links lead (${shared.slice(0, 5).join(", ")}),`;
  return `nothing below ${gitPath}${links} changed`;
}

function ignored(reason: string): Judgement {
  return { verdict: "ignored", reason };
}
