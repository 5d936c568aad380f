// Reads the conditions of both releases of a roll-out as they are now: how their replicas serve,
// which the scheduler knows, and how their calls end, which the proxy counts.
import type { CallCounts, Conditions, ReleaseCondition } from "#deploy/worse.ts";
import type { AppId, ReleaseId } from "#lib/ids.ts";
import type { ReplicaView } from "./replica-view.ts";
import type { ReleaseService } from "./served-releases.ts";

type ConditionParts = {
  /** The calls of a release, as the proxy counts them; undefined: it has had no replica. */
  readonly tallyOf: (appId: AppId, releaseId: ReleaseId) => CallCounts | undefined;
  readonly serviceOf: (appId: AppId, releaseId: ReleaseId) => ReleaseService;
  readonly view: Pick<ReplicaView, "weightOf">;
};

/** Returns a function that reads the conditions of two releases of an app, from memory only. */
export function releaseConditions({ tallyOf, serviceOf, view }: ConditionParts) {
  const conditionOf = (appId: AppId, releaseId: ReleaseId): ReleaseCondition => {
    const tally = tallyOf(appId, releaseId);
    return {
      calls: tally?.calls ?? 0,
      failures: tally?.failures ?? 0,
      failedSeconds: tally?.failedSeconds ?? 0,
      ...serviceOf(appId, releaseId),
    };
  };
  return (
    appId: AppId,
    { old, next }: { readonly old: ReleaseId; readonly next: ReleaseId },
  ): Conditions => ({
    old: conditionOf(appId, old),
    next: conditionOf(appId, next),
    weight: view.weightOf(appId, next),
  });
}
