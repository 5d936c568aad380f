// Since when a run has waited for a replica, which it does for a limited time: neither while a budget had stopped its app nor
// while there was no platform could it get one, and that is no reason to end it.
import type { Clock } from "#lib/clock.ts";
import type { AppId } from "#lib/ids.ts";

/** Knows of stops what it was told; made as the platform starts. */
export class WaitTimer {
  readonly #clock: Pick<Clock, "now">;
  readonly #startedMs: number;
  /** When runs of an app were last kept waiting by a stop. There are no more entries than apps. */
  readonly #stoppedMs = new Map<AppId, number>();

  constructor(clock: Pick<Clock, "now">) {
    this.#clock = clock;
    this.#startedMs = clock.now();
  }

  /** The app is stopped, and has runs. */
  isStopped(appId: AppId): void {
    this.#stoppedMs.set(appId, this.#clock.now());
  }

  /** Since when a run that was accepted then can have had a replica. */
  sinceMs(appId: AppId, acceptedAtMs: number): number {
    return Math.max(acceptedAtMs, this.#startedMs, this.#stoppedMs.get(appId) ?? acceptedAtMs);
  }
}
