// Stores what the scheduler must still know of each app after a restart of the platform: cooldowns,
// and the delay of the next start after failures. Pure, except for the class that reads and writes
// the rows.
import { must } from "#lib/assert.ts";
import type { Clock } from "#lib/clock.ts";
import type { AppId } from "#lib/ids.ts";
import type { AppState, AppStates } from "./app-state.ts";
import type { ReplicaRows, StoredScaling } from "./replica-rows.ts";

/** One moment on both clocks. */
type Moment = { readonly now: number; readonly monotonicMs: number };

/** Maximum number of apps in one statement. */
const savedAtOnceMax = 500;

/** The row of an app's state. */
function toStored(appId: AppId, state: AppState, moment: Moment): StoredScaling {
  const { history } = state;
  // A refused start is not stored: when the platform runs again, its cause may have been corrected.
  const starts = state.starts?.isRefused === true ? undefined : state.starts;
  const at = (monotonicMs: number): Date => new Date(moment.now + monotonicMs - moment.monotonicMs);
  return {
    app_id: appId,
    counts: history.recommendations.map(({ count }) => count),
    held_until: history.recommendations.map(({ untilMs }) => at(untilMs)),
    release_id: starts?.releaseId ?? null,
    failures: starts?.failures ?? null,
    failed_at: starts === undefined ? null : at(starts.failedAtMs),
    retry_at: starts === undefined ? null : at(starts.retryAtMs),
    reason: starts?.reason ?? null,
    is_shown: starts?.isShown ?? null,
  };
}

/**
 * Restores the state from a row. The clock may have jumped, so a time in the future is replaced by
 * now. Only the next retry may be in the future: its delay since the failure stays what it was.
 */
function fromStored(row: StoredScaling, moment: Moment): AppState {
  const nowMs = moment.monotonicMs;
  const at = (time: Date): number => Math.min(nowMs, nowMs + time.getTime() - moment.now);
  const lastIndex = row.counts.length - 1;
  const recommendations = row.counts.map((count, index) => {
    // The load since the last platform ended is unknown, so the last recommendation still holds.
    if (index === lastIndex) return { untilMs: nowMs, count };
    return { untilMs: at(must(row.held_until[index], "each count has a time")), count };
  });
  return {
    history: {
      recommendations,
      samples: [],
      knownFromMs: nowMs,
      byMetric: 0,
      lookedAtMs: nowMs,
    },
    starts: startsOf(row, at),
    rollOutStarts: undefined,
    heldBack: undefined,
  };
}

function startsOf(row: StoredScaling, at: (time: Date) => number): AppState["starts"] {
  const {
    release_id: releaseId,
    failures,
    failed_at: failedAt,
    retry_at: retryAt,
    reason,
    is_shown: isShown,
  } = row;
  if (releaseId === null || failures === null || failedAt === null) return undefined;
  if (retryAt === null || reason === null || isShown === null) return undefined;
  const failedAtMs = at(failedAt);
  const retryAtMs = failedAtMs + Number(retryAt) - Number(failedAt);
  return { releaseId, failures, failedAtMs, retryAtMs, reason, isShown, isRefused: false };
}

/**
 * A text that changes when the row must be written again. Leaves out how long the last
 * recommendation has held, which changes all the time.
 */
function contentOf({ history, starts }: AppState): string {
  const { recommendations } = history;
  const earlier = recommendations.slice(0, -1);
  return JSON.stringify([earlier, recommendations.at(-1)?.count, starts]);
}

type KeeperParts = {
  readonly rows: Pick<ReplicaRows, "scaling" | "saveScaling">;
  readonly clock: Clock;
  /** The current state of each app; `load` fills it. */
  readonly states: AppStates;
};

/** Reads the rows once, and then writes changes. */
export class ScalingKeeper {
  readonly #parts: KeeperParts;
  /** What the row of each app contains, as `contentOf` says it. */
  readonly #saved = new Map<AppId, string>();

  constructor(parts: KeeperParts) {
    this.#parts = parts;
  }

  /** Reads the stored states. Rejects when the database does not answer. */
  async load(): Promise<void> {
    const rows = await this.#parts.rows.scaling();
    const moment = this.#moment();
    for (const row of rows) {
      const state = fromStored(row, moment);
      this.#parts.states.set(row.app_id, state);
      this.#saved.set(row.app_id, contentOf(state));
    }
  }

  /**
   * Saves all changes, in one statement unless very many apps changed. Rejects when the database
   * does not answer; the next call retries.
   */
  async save(): Promise<void> {
    const moment = this.#moment();
    const changed = [...this.#parts.states].flatMap(([appId, state]) => {
      const content = contentOf(state);
      if (this.#saved.get(appId) === content) return [];
      return { content, row: toStored(appId, state, moment) };
    });
    const removed = [...this.#saved.keys()].filter((appId) => !this.#parts.states.has(appId));
    for (let done = 0; done < Math.max(changed.length, removed.length); done += savedAtOnceMax) {
      const changedNow = changed.slice(done, done + savedAtOnceMax);
      const removedNow = removed.slice(done, done + savedAtOnceMax);
      const rows = changedNow.map(({ row }) => row);
      await this.#parts.rows.saveScaling(rows, removedNow);
      for (const { content, row } of changedNow) this.#saved.set(row.app_id, content);
      for (const appId of removedNow) this.#saved.delete(appId);
    }
  }

  #moment(): Moment {
    return { now: this.#parts.clock.now(), monotonicMs: this.#parts.clock.monotonicMs() };
  }
}
