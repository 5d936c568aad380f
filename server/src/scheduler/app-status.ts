// Answers questions about an app between its turns: how well its releases serve, and why its calls
// wait. The answers come from memory.
import type { AppId, ReleaseId } from "#lib/ids.ts";
import { waitReason, type AppStates, type RouteSource } from "./app-state.ts";
import type { Clock } from "#lib/clock.ts";
import type { DemandSource } from "./demand.ts";
import type { Fleet } from "./replica.ts";
import type { ReplicaView } from "./replica-view.ts";
import { isOf, isServing, isStarting, type ReleaseService } from "./served-releases.ts";

type StatusParts = {
  readonly states: AppStates;
  readonly fleet: Fleet;
  readonly routes: RouteSource;
  readonly demand: DemandSource;
  readonly view: ReplicaView;
  readonly clock: Clock;
};

/** The current status of apps; one per scheduler. */
export class AppStatus {
  readonly #parts: StatusParts;

  constructor(parts: StatusParts) {
    this.#parts = parts;
  }

  /** How well a release that takes calls serves them. */
  serviceOf(appId: AppId, releaseId: ReleaseId): ReleaseService {
    const { states, fleet } = this.#parts;
    const state = states.get(appId);
    const starts = [state?.starts, state?.rollOutStarts].find(
      (record) => record?.releaseId === releaseId,
    );
    const replicas = fleet.ofApp(appId).filter((replica) => isOf(replica, { releaseId }));
    return {
      serving: replicas.filter(isServing).length,
      unready: replicas.filter((replica) => replica.state === "ready" && !isServing(replica))
        .length,
      failedStarts: starts?.failures ?? 0,
      startReason: starts?.reason ?? null,
    };
  }

  /** Why the app's calls wait; see `waitReason` in `app-state.ts`. */
  waitReason(appId: AppId): string | undefined {
    const { states, fleet, routes, demand, view, clock } = this.#parts;
    const live = routes.byAppId(appId)?.live ?? undefined;
    if (live === undefined) return undefined;
    const state = states.get(appId);
    const replicas = fleet.ofApp(appId).filter((replica) => isOf(replica, live));
    const starting = replicas.filter(isStarting);
    return waitReason({
      failureReason: view.failure(appId)?.reason,
      starts: state?.starts,
      heldBack: state?.heldBack,
      starting: starting.length,
      pending: starting.filter((replica) => replica.isPending && !replica.isCreating).length,
      // Replicas of an earlier release say nothing about this one.
      ready: view.ready(appId).filter(({ releaseId }) => releaseId === live.releaseId).length,
      unrouted: replicas.filter((replica) => replica.state === "ready" && !replica.isRouted).length,
      waiting: demand.demandOf(appId).waiting,
      replicasMax: live.settings.maxReplicaCount,
      nowMs: clock.monotonicMs(),
    });
  }
}
