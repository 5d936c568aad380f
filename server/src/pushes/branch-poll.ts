// Finds pushes that no hook reported: asks git for the newest commits of branches, once per
// repository for all its apps. Repositories whose hooks have worked are asked rarely, in case the
// platform was not running when a host sent an event.
import { getOrInsert } from "#lib/get-or-insert.ts";
import type { GitRemote } from "#deploy/sources/git-remote.ts";
import { backoffMs } from "#lib/backoff.ts";
import { Gate } from "#lib/gate.ts";
import { newGitDeliveryId, type AppId } from "#lib/ids.ts";
import { Loop } from "#lib/loop.ts";
import type { Foundation } from "#store/foundation.ts";
import type { Notifications } from "#store/notify.ts";
import { judgeApp } from "./judge.ts";
import {
  addDelivery,
  pushedApp,
  putHead,
  readPushedApps,
  type NewGitDelivery,
  type PushedAppRow,
  type PushSettingsRow,
} from "./push-store.ts";

export type BranchPollParts = Pick<Foundation, "db" | "clock" | "log"> & {
  readonly notifications: Pick<Notifications, "listen">;
  readonly remote: Pick<GitRemote, "heads">;
  /** The usual time between two polls of a repository. */
  readonly pollMs: number;
  /** Called when a delivery was added: it waits for its verdict, or shows why polls fail. */
  readonly onDelivery: () => void;
};

/** The state from which the time of a repository's next poll is computed. */
export type Pace = {
  /** The monotonic time of the last poll. Before the first poll, it is random, to spread polls. */
  askedMs: number;
  /** Whether the repository was polled since the start of the platform. */
  wasAsked: boolean;
  /** The number of failed polls in a row. */
  failures: number;
  /** A factor around 1, which spreads the polls. */
  jitter: number;
};

/** The maximum number of repositories that are polled at the same time. */
const atOnceMax = 4;
const hourMs = 3_600_000;
/** The maximum time between two turns, each of which costs one query. */
const turnMsMax = 15_000;
/** After this many failures in a row, a delivery of each app of the repository shows the reason. */
const failuresShown = 3;

/** Polls branches. Call `loop.start()` once; `loop.stop()` aborts running polls. */
export class BranchPoll {
  readonly #parts: BranchPollParts;
  readonly loop: Loop;
  /** The gate needs no limit for waiting polls, since there is only one of each repository. */
  readonly #gate = new Gate({ max: atOnceMax, waitingMax: Number.POSITIVE_INFINITY });
  readonly #paces = new Map<string, Pace>();
  /** The apps whose branches the last turn was to watch; null: no turn has run yet. */
  #apps: ReadonlySet<AppId> | null = null;

  constructor(parts: BranchPollParts) {
    const { pollMs, clock, log, notifications } = parts;
    this.#parts = parts;
    this.loop = new Loop({
      name: "branches",
      // Several turns within the time between polls, so that polls begin about when they are due.
      intervalMs: Math.min(pollMs / 4, turnMsMax),
      clock,
      log,
      turn: (signal) => this.#turn(signal),
      // A change of an app may mean that it was started, or that its deploys were resumed.
      listen: (nudge) => notifications.listen("apps", nudge),
    });
  }

  async #turn(signal: AbortSignal): Promise<void> {
    // The branch of an app whose pushes would not be built now is not watched.
    const apps = (await readPushedApps(this.#parts.db)).filter(
      (row) => judgeApp(pushedApp(row)) === null,
    );
    const repositories = Map.groupBy(apps, repositoryOf);
    for (const key of this.#paces.keys()) if (!repositories.has(key)) this.#paces.delete(key);
    const due = [...repositories].filter(([key, group]) => this.#isDue(key, group));
    this.#apps = new Set(apps.map((app) => app.id));
    const polls = due.map(([key, group]) => this.#gate.run(() => this.#poll(key, group, signal)));
    await Promise.all(polls);
  }

  #isDue(key: string, group: readonly PushedAppRow[]): boolean {
    const { clock, pollMs } = this.#parts;
    const nowMs = clock.monotonicMs();
    // An app with a known commit that was not among the apps of the last turn has been started or
    // resumed.
    const isBack = group.some((app) => app.seen_sha !== null && this.#apps?.has(app.id) === false);
    // After the start of the platform, each repository is polled once, even if it has a hook. The
    // polls are spread over the interval.
    const initial: Pace = {
      askedMs: nowMs - pollMs * clock.random(),
      wasAsked: false,
      failures: 0,
      jitter: 1,
    };
    const pace = getOrInsert(this.#paces, key, () => initial);
    const isHooked = pace.wasAsked && group.every((app) => app.received_at !== null);
    return isBack || nowMs >= pace.askedMs + waitMs(pace, { pollMs, isHooked });
  }

  /** Polls the branches of the apps of one repository. Never rejects. */
  async #poll(key: string, group: readonly PushedAppRow[], signal: AbortSignal): Promise<void> {
    const { clock, log, remote } = this.#parts;
    const [first] = group;
    const pace = this.#paces.get(key);
    if (first === undefined || pace === undefined || signal.aborted) return;
    const { gitRepo } = pushedApp(first);
    const branches = new Set(group.map((app) => pushedApp(app).gitBranch));
    try {
      const heads = await remote.heads(
        { projectId: first.project_id, gitRepo },
        [...branches],
        signal,
      );
      signal.throwIfAborted();
      pace.failures = heads.ok ? 0 : pace.failures + 1;
      for (const app of group) {
        if (heads.ok) await this.#compare(app, heads.value.get(pushedApp(app).gitBranch));
        else if (pace.failures === failuresShown)
          await this.#add(app, { verdict: "failed", reason: heads.reason });
      }
    } catch (error) {
      if (!signal.aborted)
        log.error({ err: error, gitRepo }, "the branches of a repository could not be compared");
    } finally {
      pace.askedMs = clock.monotonicMs();
      pace.wasAsked = true;
      pace.jitter = 0.9 + 0.2 * clock.random();
    }
  }

  /** Adds a delivery if the newest commit of the app's branch is a new one. */
  async #compare(app: PushedAppRow, commit: string | undefined): Promise<void> {
    const { gitBranch, gitPath } = pushedApp(app);
    const seen = app.branch === gitBranch ? app.seen_sha : null;
    // Nothing is to be done if the host has no such branch, or if the commit was seen before. A
    // delivery that waits has the branch read anyway.
    if (commit === undefined || commit === seen || app.has_waiting) return;
    // A build is about to read this branch for the first time. A later poll compares with the
    // commit of that build.
    if (seen === null && app.is_reading) return;
    // The branch is read for the first time, and nothing was pushed since the latest build.
    if (seen === null && commit === app.built_sha) {
      const head = { app_id: app.id, branch: gitBranch, seen_sha: commit, same_sha: commit };
      return await this.#parts.db.transaction().execute((tx) => putHead(tx, head));
    }
    await this.#add(app, {
      verdict: "waiting",
      reason: "the branch is about to be read",
      ref: `refs/heads/${gitBranch}`,
      before_sha: seen,
      commit_sha: commit,
      // A push always changes the root folder; whether it changes another one, only git can tell.
      is_touched: gitPath === "" ? true : null,
    });
  }

  async #add(
    app: PushedAppRow,
    delivery: Omit<NewGitDelivery, "id" | "app_id" | "event">,
  ): Promise<void> {
    const row = { ...delivery, id: newGitDeliveryId(), app_id: app.id, event: "poll" };
    await this.#parts.db.transaction().execute((tx) => addDelivery(tx, row));
    this.#parts.onDelivery();
  }
}

/**
 * The time from one poll to the next: `pollMs`, doubled by each failure, up to an hour; always an
 * hour where hooks work. It is never shorter than `pollMs`, except by the jitter.
 */
export function waitMs(
  { failures, jitter }: Pick<Pace, "failures" | "jitter">,
  { pollMs, isHooked }: { readonly pollMs: number; readonly isHooked: boolean },
): number {
  const msMax = Math.max(pollMs, hourMs);
  const policy = { firstMs: isHooked ? msMax : pollMs, factor: 2, msMax, jitter: 0 };
  // The random number 0 has no effect, since `policy` has no jitter of its own.
  return jitter * backoffMs(policy, failures + 1, 0);
}

/**
 * The key of apps that are polled together: apps of one repository. Apps of projects with
 * credentials are kept apart by project, since other projects must not learn what these credentials
 * show.
 */
export function repositoryOf(
  app: PushSettingsRow & Pick<PushedAppRow, "project_id" | "has_credentials">,
): string {
  return `${app.has_credentials ? app.project_id : ""} ${pushedApp(app).gitRepo}`;
}
