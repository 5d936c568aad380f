// Gives verdicts to waiting push events: asks git for the newest commit of the branch, and starts
// at most one build for all events of an app. Apps do not wait for each other, and a lost nudge
// costs only time.
import { record, type Actor } from "#audit/record.ts";
import type { BuildReceiver } from "#apps/build-receiver.ts";
import type { Checked } from "#deploy/checked.ts";
import type { GitRemote } from "#deploy/sources/git-remote.ts";
import { Fault } from "#lib/fault.ts";
import type { AppId } from "#lib/ids.ts";
import { Loop } from "#lib/loop.ts";
import { retry } from "#lib/retry.ts";
import type { Tx } from "#store/database.ts";
import type { Foundation } from "#store/foundation.ts";
import type { Notifications } from "#store/notify.ts";
import { areTouched, judgeApp, judgeHead, type BranchHead, type Judgement } from "./judge.ts";
import * as store from "./push-store.ts";

export type PushJudgeParts = Pick<Foundation, "db" | "clock" | "log"> & {
  readonly notifications: Pick<Notifications, "listen">;
  readonly remote: Pick<GitRemote, "heads" | "facts">;
  readonly builds: Pick<BuildReceiver, "receiveBuild">;
};

/** The newest commit of a branch. */
type Head = BranchHead & {
  readonly author: string;
  /** A commit at which the app's files were the same, see `areTouched`. */
  readonly same: string | null;
};

/** The waiting push events of an app, and the app's row before git was asked. */
type Case = {
  readonly row: store.PushedAppRow;
  readonly deliveries: readonly store.GitDeliveryRow[];
};

/** The maximum number of apps whose branches are read at the same time. */
const appsMax = 8;
/** How many push events one turn takes; the next turn takes the others. */
const waitingMax = 1_000;
/** Usually a push event nudges the loop; the interval is for retries. */
const intervalMs = 5_000;
/** How often git is asked before its refusal counts, and the pauses in between. */
const patience = { firstMs: 500, factor: 4, msMax: 5_000, jitter: 0.2, triesMax: 3 } as const;

/** Call `loop.start()` once. After `stop()`, events without a verdict wait for the next start. */
export class PushJudge {
  readonly #parts: PushJudgeParts;
  readonly loop: Loop;
  readonly #running = new Map<AppId, Promise<void>>();
  readonly #stopping = new AbortController();

  constructor(parts: PushJudgeParts) {
    const { clock, log, notifications } = parts;
    this.#parts = parts;
    this.loop = new Loop({
      name: "pushes",
      turn: () => this.#turn(),
      intervalMs,
      clock,
      log,
      // Changes of apps nudge the loop too, since push events of a stopped app wait for its start.
      listen: (nudge) => notifications.listen("apps", nudge),
    });
  }

  async stop(): Promise<void> {
    this.#stopping.abort(new Error("the platform is stopping"));
    await this.loop.stop();
    await Promise.all(this.#running.values());
  }

  async #turn(): Promise<void> {
    const waiting = Map.groupBy(
      await store.waitingDeliveries(this.#parts.db, waitingMax),
      (row) => row.app_id,
    );
    for (const [appId, deliveries] of waiting) {
      if (this.#running.size >= appsMax) return;
      if (!this.#running.has(appId)) this.#running.set(appId, this.#judge(appId, deliveries));
    }
  }

  /** Judges the push events of an app. Never rejects: the loop tries again after a failure. */
  async #judge(appId: AppId, deliveries: readonly store.GitDeliveryRow[]): Promise<void> {
    const { db, log } = this.#parts;
    try {
      const row = await store.readPushedApp(db, appId);
      if (row === undefined) return;
      const pushes = { row, deliveries };
      // `judgeApp` gives a verdict only for an app that must not build.
      const mayBuild = judgeApp(store.pushedApp(row)) === null;
      const head = mayBuild ? await this.#readHead(pushes) : null;
      await this.#decide(pushes, head);
      this.loop.nudge();
    } catch (error) {
      if (!this.#stopping.signal.aborted)
        log.error({ err: error, appId }, "a push could not be processed");
    } finally {
      this.#running.delete(appId);
    }
  }

  /** Reads the newest commit of the branch; asks git only for as much as the verdict needs. */
  async #readHead({ row, deliveries }: Case): Promise<Checked<Head>> {
    const { db, remote } = this.#parts;
    const { signal } = this.#stopping;
    const { gitRepo, gitBranch, gitPath, sharedPaths } = store.pushedApp(row);
    const repository = { projectId: row.project_id, gitRepo };
    const heads = await this.#patiently(() => remote.heads(repository, [gitBranch], signal));
    if (!heads.ok) return heads;
    const commit = heads.value.get(gitBranch);
    if (commit === undefined) return { ok: false, reason: `${gitRepo} has no branch ${gitBranch}` };
    // Meanwhile a build of the app may have found out which commit it builds.
    const latestRow = (await store.readPushedApp(db, row.id)) ?? row;
    const builtCommit = latestRow.built_sha;
    const same = latestRow.same_sha ?? builtCommit;
    const wasSeen = commit === latestRow.seen_sha || commit === builtCommit;
    // A replayed event is judged again, even if its commit was seen before.
    const isReplay = deliveries.some((one) => one.replay_of !== null);
    const isSeen = wasSeen && !isReplay;
    const delivery = deliveries.find((one) => one.commit_sha === commit && one.message !== null);
    // Null: not known. Before the first build everything counts as touched.
    const isTouched = builtCommit === null ? true : areTouched(deliveries, same);
    const known = {
      commit,
      message: delivery?.message ?? "",
      author: delivery?.author ?? "",
      isSeen,
      isTouched,
      same,
    };
    const areFactsKnown = delivery !== undefined && isTouched !== null;
    if (isSeen || areFactsKnown) return { ok: true, value: known };
    // Without the shared paths, nobody knows all folders that would have to be compared.
    const isComparable = isTouched === null && sharedPaths !== null;
    const folders = [gitPath, ...(sharedPaths ?? [])];
    const comparison = { commit, older: isComparable ? builtCommit : null, folders };
    const facts = await this.#patiently(() => remote.facts(repository, comparison, signal));
    if (!facts.ok) return facts;
    // What git says replaces what the delivery said.
    return {
      ok: true,
      value: { ...known, ...facts.value, isTouched: isTouched ?? facts.value.isTouched },
    };
  }

  /**
   * Asks up to `patience.triesMax` times, and returns the answer, or the last refusal. Failures are
   * not logged, since the refusal becomes the reason of a verdict.
   */
  async #patiently<T>(ask: () => Promise<Checked<T>>): Promise<Checked<T>> {
    const { signal } = this.#stopping;
    let answer: Checked<T> | undefined;
    await retry(
      { ...patience, clock: this.#parts.clock, signal, onFailure: () => undefined },
      async () => {
        answer = await ask();
        if (!answer.ok) throw new Error(answer.reason);
      },
    );
    signal.throwIfAborted();
    return answer ?? { ok: false, reason: "git could not be asked" };
  }

  /**
   * Writes the verdict, the build and the audit row in one transaction. Writes nothing when the
   * app's settings have changed since git was asked.
   */
  async #decide({ row, deliveries }: Case, head: Checked<Head> | null): Promise<void> {
    const { db } = this.#parts;
    const before = store.pushedApp(row);
    const everyId = deliveries.map(({ id }) => id);
    try {
      await db.transaction().execute(async (tx) => {
        const locked = await store.readPushedApp(tx, row.id, { isLocked: true });
        if (locked === undefined) return;
        const app = store.pushedApp(locked);
        const isSame = (["gitRepo", "gitBranch", "gitPath", "isStopped"] as const).every(
          (name) => app[name] === before[name],
        );
        if (!isSame) return;
        const verdictForApp = judgeApp(app);
        if (verdictForApp !== null) return await store.decideDeliveries(tx, everyId, verdictForApp);
        // When the app's row was read, it was not to be built, so git was not asked. The next turn
        // asks git.
        if (head === null) return;
        if (!head.ok)
          return await store.decideDeliveries(tx, everyId, {
            verdict: "failed",
            reason: head.reason,
          });
        const judgement = judgeHead(app, head.value);
        await this.#apply(tx, { row: locked, deliveries }, { judgement, head: head.value });
      });
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      // The build was refused: the plan does not allow it, or too many are waiting.
      const reason = error.message;
      await db
        .transaction()
        .execute((tx) => store.decideDeliveries(tx, everyId, { verdict: "failed", reason }));
    }
  }

  /** Gives the verdict to the push event of the newest commit; older events are ignored. */
  async #apply(
    tx: Tx,
    { row, deliveries }: Case,
    decided: { judgement: Judgement; head: Head },
  ): Promise<void> {
    const { judgement, head } = decided;
    const { commit } = head;
    // If no event names the newest commit, the latest event gets its verdict.
    const chosen = deliveries.findLast((one) => one.commit_sha === commit) ?? deliveries.at(-1);
    const others = deliveries.flatMap((one) => (one === chosen ? [] : [one.id]));
    const buildId =
      judgement.verdict === "built" ? await this.#build(tx, row, { chosen, head }) : undefined;
    if (chosen !== undefined)
      await store.decideDeliveries(tx, [chosen.id], { ...judgement, buildId });
    await store.decideDeliveries(tx, others, {
      verdict: "ignored",
      reason: `${commit.slice(0, 7)} is newer`,
    });
    // Whether the app's folder at `commit` is the same as in the latest build, which may be the
    // build that was just started.
    const isFolderSame = buildId !== undefined || head.isTouched === false;
    const same = isFolderSame ? commit : head.same;
    if (!head.isSeen) {
      const { gitBranch: branch } = store.pushedApp(row);
      await store.putHead(tx, { app_id: row.id, branch, seen_sha: commit, same_sha: same });
    }
  }

  async #build(
    tx: Tx,
    row: store.PushedAppRow,
    { chosen, head }: { chosen: store.GitDeliveryRow | undefined; head: Head },
  ) {
    const { commit, message, author } = head;
    // The name of the actor has no email address.
    const name = author.replace(/ *<.*>$/, "");
    const pusher: Actor = {
      type: "platform",
      id: null,
      name: name === "" ? "git push" : `git push of ${name}`,
    };
    const by = (chosen?.replayed_by as Actor | null | undefined) ?? pusher;
    const { gitBranch: branch } = store.pushedApp(row);
    const { buildId } = await this.#parts.builds.receiveBuild(tx, {
      projectId: row.project_id,
      appId: row.id,
      cause: "push",
      by,
      isRunningSuperseded: true,
      commit,
      branch,
      message,
      author,
    });
    await record(tx, {
      projectId: row.project_id,
      action: "build.create",
      // The person who replayed a push event is recorded with the replay.
      by: { actor: pusher },
      resource: { type: "build", id: buildId },
      changes: { commit: { new: commit }, branch: { new: branch } },
    });
    return buildId;
  }
}
