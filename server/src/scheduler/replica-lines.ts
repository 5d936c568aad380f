// Takes the lines of replicas to the logs of their apps: what they print, and what the platform
// notices about one of them. A trial follows those of its replica meanwhile.
import type { ReplicaLine } from "#drivers/driver.ts";
import type { ReplicaId, RunId } from "#lib/ids.ts";
import type { Foundation } from "#store/foundation.ts";
import type { Replica, ReplicaRelease } from "./replica.ts";

/** Stores lines of apps; implemented by `logs/app-log.ts`. */
export interface LineStore {
  /** Resolves when the lines are stored. */
  append(
    lines: readonly (ReplicaLine & Pick<ReplicaRelease, "projectId" | "appId">)[],
  ): Promise<void>;
  /**
   * The replica's last stored lines that belong to no run, from `since` on, belong to these runs
   * too.
   */
  assignLast(
    replicaId: ReplicaId,
    ended: { readonly since: number; readonly runIds: readonly RunId[] },
  ): Promise<void>;
}

type LinesParts = Pick<Foundation, "clock" | "log"> & {
  readonly store: Pick<LineStore, "append">;
  /** Whose lines a replica prints; undefined: nobody's. */
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

  /** Resolves when the lines are stored. Drops those of replicas that belong to nobody. */
  async append(lines: readonly ReplicaLine[]): Promise<void> {
    const known = lines.flatMap((line) => {
      const owner = this.#parts.ownerOf(line.replicaId);
      if (owner === undefined) return [];
      this.#followers.get(line.replicaId)?.(line);
      return [{ ...line, projectId: owner.projectId, appId: owner.appId }];
    });
    if (known.length > 0) await this.#parts.store.append(known);
  }

  /** Adds a line of the platform's own about the replica. */
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
   * Calls `follower` with each further line of the replica until the result is disposed; one at a
   * time for each replica.
   */
  follow(replicaId: ReplicaId, follower: Follower): Disposable {
    this.#followers.set(replicaId, follower);
    return { [Symbol.dispose]: () => this.#followers.delete(replicaId) };
  }
}
