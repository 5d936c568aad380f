// The row of a build that this worker has claimed. Each write checks that the worker still holds
// the lease.
import type { RawBuilder } from "kysely";
import type { BuildState } from "@slipway/contract/words.ts";
import type { Db } from "#store/database.ts";
import { BuildStopped } from "./build-ending.ts";
import {
  moveBuild,
  recordProgress,
  type BuildRecord,
  type IntermediateResults,
} from "./build-store.ts";

/** A build as it was when its work began, and the writes of this work. */
export class ClaimedBuild {
  readonly record: BuildRecord;
  /** The SQL condition that this platform still holds the build; see `Leases.held`. */
  readonly held: RawBuilder<boolean>;
  readonly #db: Db;

  constructor(db: Db, record: BuildRecord, held: RawBuilder<boolean>) {
    this.record = record;
    this.held = held;
    this.#db = db;
  }

  /**
   * Moves the build to a state. False when its present state does not allow the move, or the lease
   * is lost.
   */
  async move(to: BuildState, reason: string | null): Promise<boolean> {
    const move = { buildId: this.record.buildId, held: this.held, to, reason };
    return await this.#db.transaction().execute((tx) => moveBuild(tx, move));
  }

  /** Stores intermediate results; throws `BuildStopped` when the lease is lost. */
  async keep(results: IntermediateResults): Promise<void> {
    if (!(await recordProgress(this.#db, this.held, results))) throw new BuildStopped("lease_lost");
  }

  /** Why a write was refused: the build was just cancelled, or the lease is lost. */
  async whyRefused(): Promise<BuildStopped> {
    // Stores no results, but tells whether the lease is held.
    const isHeld = await recordProgress(this.#db, this.held, {});
    return new BuildStopped(isHeld ? "cancelled" : "lease_lost");
  }
}
