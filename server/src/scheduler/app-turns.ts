// Gives apps their turns: a nudged app as soon as the caller yields, and any app on request. An
// error in the turn of one app does not prevent the turns of others.
import type { AppId } from "#lib/ids.ts";
import type { Log } from "#lib/log.ts";

type Turn = (appId: AppId) => void;

/** The turns of all apps; one per scheduler. */
export class AppTurns {
  readonly #log: Log;
  readonly #nudged = new Set<AppId>();
  /** Null: apps have no turns. */
  #turn: Turn | null = null;

  constructor(log: Log) {
    this.#log = log;
  }

  /** From now on apps have turns. Earlier nudges are lost. */
  begin(turn: Turn): void {
    this.#turn = turn;
  }

  /** No turn begins after this. */
  end(): void {
    this.#turn = null;
  }

  /** Gives the app a turn as soon as the caller yields. Cheap; many nudges lead to one turn. */
  nudge(appId: AppId): void {
    if (this.#turn === null) return;
    if (this.#nudged.size === 0) queueMicrotask(() => this.#runNudged());
    this.#nudged.add(appId);
  }

  /** Gives each of these apps a turn now. */
  run(appIds: Iterable<AppId>): void {
    for (const appId of appIds) {
      try {
        this.#turn?.(appId);
      } catch (error) {
        this.#log.error({ err: error, appId }, "could not look at an app");
      }
    }
  }

  #runNudged(): void {
    const appIds = [...this.#nudged];
    this.#nudged.clear();
    this.run(appIds);
  }
}
