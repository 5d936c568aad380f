// Passes the lines of replicas to the logs of their apps: their output, and notices of the platform
// about them. A trial also follows the lines of its replica.
import type { ReplicaLine } from "#drivers/driver.ts";
import type { ReplicaId, RunId } from "#lib/ids.ts";
import type { Foundation } from "#store/foundation.ts";
import type { Replica, ReplicaRelease } from "./replica.ts";

type LineOfApp = ReplicaLine & Pick<ReplicaRelease, "projectId" | "appId">;

/** Stores lines of apps; implemented by `logs/app-log.ts`. */
export interface LineStore {
  /** Resolves when the lines are stored. */
  append(lines: readonly LineOfApp[]): Promise<void>;
  /**
   * Assigns to each of these runs the replica's last stored lines that belong to no run. `since`:
   * the time from which on lines count, in milliseconds since the epoch.
   */
  assignLast(
    replicaId: ReplicaId,
    ended: { readonly since: number; readonly runIds: readonly RunId[] },
  ): Promise<void>;
}

type LinesParts = Pick<Foundation, "clock" | "log"> & {
  readonly store: Pick<LineStore, "append">;
  /** The app that the lines of a replica belong to; undefined: there is none. */
  readonly ownerOf: (
    replicaId: ReplicaId,
  ) => Pick<ReplicaRelease, "projectId" | "appId"> | undefined;
};

type Follower = (line: ReplicaLine) => void;

/** The lines of all replicas; one per scheduler. */
export class ReplicaLines {
  readonly #parts: LinesParts;
  readonly #followers = new Map<ReplicaId, Follower>();

  constructor(parts: LinesParts) {
    this.#parts = parts;
  }

  /** Resolves when the lines are stored. Drops lines of replicas that belong to no app. */
  async append(lines: readonly ReplicaLine[]): Promise<void> {
    const linesOfApps: LineOfApp[] = [];
    for (const line of lines) {
      const owner = this.#parts.ownerOf(line.replicaId);
      if (owner === undefined) continue;
      this.#followers.get(line.replicaId)?.(line);
      linesOfApps.push({ ...line, projectId: owner.projectId, appId: owner.appId });
    }
    if (linesOfApps.length > 0) await this.#parts.store.append(linesOfApps);
  }

  /** Adds a notice of the platform about the replica. */
  notice({ replicaId }: Replica, text: string): void {
    const { clock, log } = this.#parts;
    const line: ReplicaLine = {
      replicaId,
      at: clock.now(),
      stream: "stderr",
      runId: null,
      text,
    };
    this.append([line]).catch((error: unknown) =>
      log.warn({ err: error, replicaId }, "a notice was not stored"),
    );
  }

  /**
   * Calls `follower` with each further line of the replica until the result is disposed of. A
   * replica has one follower at a time.
   */
  follow(replicaId: ReplicaId, follower: Follower): Disposable {
    this.#followers.set(replicaId, follower);
    return { [Symbol.dispose]: () => this.#followers.delete(replicaId) };
  }
}
