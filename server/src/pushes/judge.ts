// Decides what a push means for an app: first by the event that the host sent, later by the branch
// as git shows it. Pure.
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
   * Other folders and files of the repository that belong to the app because of links; null: they
   * are not known.
   */
  readonly sharedPaths: readonly string[] | null;
  readonly gitAutoDeploy: boolean;
  /** Why automatic deployments are paused; null: they are not. */
  readonly pausedReason: string | null;
  readonly isStopped: boolean;
};

/** A verdict with its reason. */
export type Judgement = { readonly verdict: GitVerdict; readonly reason: string };

const skipMark = /\[skip deploy\]/i;
const branchPrefix = "refs/heads/";

/**
 * Judges a push by its event. `update` is the update of the app's branch, or the first other one if
 * the push has none of that branch; undefined: the event is no push. `isOwn`: the push is to the
 * app's branch in the app's repository. `isForeign`: the push is to another repository.
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
  const [firstUpdate] = updates;
  const shown = update ?? firstUpdate;
  const isForeign = !isSameRepository(repository, repositoryPath(app.gitRepo, hosts));
  const isOwn = update !== undefined && !isForeign;
  if (shown === undefined)
    return { ...ignored(`the event ${event} is not a push`), update: shown, isOwn, isForeign };
  const reason = isForeign
    ? `${repository} is not ${app.gitRepo}`
    : refReason(app, { update, shown });
  if (reason !== null) return { ...ignored(reason), update: shown, isOwn, isForeign };
  const waitReason = app.isStopped
    ? "the app is stopped; this waits for its start"
    : "the branch is about to be read";
  const judgement = judgeApp(app) ?? ({ verdict: "waiting", reason: waitReason } as const);
  return { ...judgement, update, isOwn, isForeign };
}

/**
 * Whether an event is of the app's repository. `repository` is the event's `owner/name`, perhaps
 * after groups that only SLIPWAY_GIT_URL names; null: the event does not name it.
 */
function isSameRepository(repository: string | null, appPath: string): boolean {
  if (repository === null) return true;
  const eventPath = repository.toLowerCase();
  const path = appPath.toLowerCase();
  return eventPath === path || eventPath.endsWith(`/${path}`);
}

/** The verdict on every push to an app without automatic deployment; null: pushes are deployed. */
export function judgeApp({ gitAutoDeploy, pausedReason }: PushedApp): Judgement | null {
  if (!gitAutoDeploy) return ignored("gitAutoDeploy is false");
  return pausedReason === null ? null : ignored(`paused: ${pausedReason}`);
}

/** Why the updates of a push do not concern the app's branch; null: they do. */
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
 * Whether a push changes the app's folder or shared paths; null: only git can tell.
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
 * Whether several waiting pushes change the app's folder; null: only git can tell. `same` is the
 * newest commit with the same folder as the latest build.
 */
export function areTouched(
  pushes: readonly { readonly before_sha: string | null; readonly is_touched: boolean | null }[],
  same: string | null,
): boolean | null {
  if (pushes.some((push) => push.is_touched === true)) return true;
  const [first] = pushes;
  // A single push that begins at `same` says everything that has happened since.
  const isUntouched =
    pushes.length === 1 && first?.is_touched === false && first.before_sha === same;
  return isUntouched ? false : null;
}

/** The newest commit of the branch, compared with the commits that the app has built and seen. */
export type BranchHead = {
  readonly commit: string;
  readonly message: string;
  /** Whether the commit was judged before, and nobody has asked for it again. */
  readonly isSeen: boolean;
  /** Whether the app's folder has changed; null: unknown, such as when the older commit is gone. */
  readonly isTouched: boolean | null;
};

/** The verdict on the newest commit of the app's branch. */
export function judgeHead(app: PushedApp, head: BranchHead): Judgement {
  const shortCommit = head.commit.slice(0, 7);
  if (head.isSeen)
    return ignored(
      `${shortCommit} is still the newest commit of ${app.gitBranch} and was handled before`,
    );
  if (skipMark.test(head.message))
    return ignored(`the message of ${shortCommit} contains [skip deploy]`);
  if (head.isTouched === false) return ignored(untouchedReason(app));
  return { verdict: "built", reason: `a build of ${shortCommit} was started` };
}

function untouchedReason({ gitPath, sharedPaths }: PushedApp): string {
  const shared = sharedPaths ?? [];
  const links =
    shared.length === 0 ? "" : `, or where its links lead (${shared.slice(0, 5).join(", ")}),`;
  return `nothing below ${gitPath}${links} changed`;
}

function ignored(reason: string): Judgement {
  return { verdict: "ignored", reason };
}
