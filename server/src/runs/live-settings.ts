// What the settings of an app's live release mean for its runs: whether answers are kept, how long
// a call may take, how many run at once.
import type { Routes } from "#apps/routes.ts";
import type { AppId } from "#lib/ids.ts";

type LiveRelease = NonNullable<NonNullable<ReturnType<Routes["byAppId"]>>["live"]>;

/** Reads the settings of live releases from the routing table, in memory. */
export class LiveSettings {
  readonly #routes: Pick<Routes, "byAppId">;

  constructor(routes: Pick<Routes, "byAppId">) {
    this.#routes = routes;
  }

  /** True when the app's replicas keep answers of runs until they are acknowledged. */
  keepsAnswers(appId: AppId): boolean {
    return this.#of(appId)?.runtime === "cortex";
  }

  /** True when a replica of the app handles one call at a time. */
  hasReplicaAlone(appId: AppId): boolean {
    return this.#of(appId)?.replicaConcurrency === 1;
  }

  /** The app's time limit for a call; 0 without a live release. */
  callMsMax(appId: AppId): number {
    return (this.#of(appId)?.responseGracePeriodSeconds ?? 0) * 1000;
  }

  /**
   * How many calls the replicas of an app can handle when fully scaled out; undefined: the app has
   * no live release.
   */
  slotsMax(appId: AppId): number | undefined {
    const settings = this.#of(appId);
    if (settings === undefined) return undefined;
    return settings.maxReplicaCount * settings.replicaConcurrency;
  }

  #of(appId: AppId): LiveRelease["settings"] | undefined {
    return this.#routes.byAppId(appId)?.live?.settings;
  }
}
