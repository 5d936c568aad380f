// Tracks how long a run has waited for a replica, which is limited: time while a budget stopped its app or no platform was
// running does not count, since it could not get a replica.
import type { Clock } from "#lib/clock.ts";
import type { AppId } from "#lib/ids.ts";

/** Knows only the stops reported to it; created when the platform starts. */
export class WaitTimer {
  readonly #clock: Pick<Clock, "now">;
  readonly #startedMs: number;
  /** When a stop last made runs of an app wait. Has at most one entry per app. */
  readonly #stoppedMs = new Map<AppId, number>();

  constructor(clock: Pick<Clock, "now">) {
    this.#clock = clock;
    this.#startedMs = clock.now();
  }

  /** The app is stopped, and has runs. */
  isStopped(appId: AppId): void {
    this.#stoppedMs.set(appId, this.#clock.now());
  }

  /** The time since which a run accepted at `acceptedAtMs` could have had a replica. */
  sinceMs(appId: AppId, acceptedAtMs: number): number {
    return Math.max(acceptedAtMs, this.#startedMs, this.#stoppedMs.get(appId) ?? acceptedAtMs);
  }
}
