// Ends replicas that run: takes them out of service, lets their calls finish within the grace
// period, and asks the driver to stop them. Its methods may be called again at any time, for any
// replica.
import type { Driver } from "#drivers/driver.ts";
import type { AppId } from "#lib/ids.ts";
import type { Foundation } from "#store/foundation.ts";
import type { Occupancy } from "./demand.ts";
import type { Replica } from "./replica.ts";
import type { ReplicaRemoval } from "./replica-removal.ts";
import type { EndOrder } from "./replica-state.ts";
import type { RowWriter } from "./row-writer.ts";

type DrainParts = Pick<Foundation, "clock" | "log"> & {
  readonly driver: Pick<Driver, "stop">;
  readonly writer: RowWriter;
  readonly occupancy: Occupancy;
  /** How long a replica without calls may take to exit after SIGTERM. */
  readonly exitMs: number;
  readonly removal: ReplicaRemoval;
  /** Called when the replicas of an app have changed, or the calls that they can take. */
  readonly onChange: (appId: AppId) => void;
};

/**
 * After the grace period of its calls, a replica may clean up for this long before it is killed.
 */
const terminateMsMin = 2000;
/** The grace period of a replica that never took a call, and so has nothing to finish. */
const unreadyGraceMs = 5000;
/** The pause before a retry when a driver failed to stop a replica. */
const stopAgainMs = 5000;

/** Ends replicas that run. */
export class ReplicaDrain {
  readonly #parts: DrainParts;

  constructor(parts: DrainParts) {
    this.#parts = parts;
  }

  /**
   * Takes a replica out of service and ends it: at once if it never took calls, otherwise when its
   * running calls have ended.
   */
  end(replica: Replica, order: EndOrder): void {
    if (replica.endOrder !== null) return;
    const { clock, occupancy, writer } = this.#parts;
    const nowMs = clock.monotonicMs();
    const wasReady = replica.state === "ready";
    const mayFinish = wasReady && order.kind !== "stuck";
    const graceMs = mayFinish ? replica.settings.responseGracePeriodSeconds * 1000 : unreadyGraceMs;
    replica.takeOrder(order, { nowMs, graceMs, mayFinish });
    replica.move("draining");
    replica.abort.abort(new Error(order.reason));
    occupancy.retire(replica.replicaId);
    const { replicaId, graceEndsAtMs } = replica;
    const at = replica.timeAt(nowMs);
    const graceEndsAt = replica.timeAt(graceEndsAtMs);
    void writer.change(replicaId, { kind: "draining", at, order, graceEndsAt });
    this.endWhenIdle(replica);
    this.#parts.onChange(replica.appId);
  }

  /**
   * Asks the driver to end a draining replica when its calls have ended or their grace period is
   * over. Called every turn.
   */
  endWhenIdle(replica: Replica): void {
    const { clock, occupancy } = this.#parts;
    if (replica.state !== "draining" || replica.terminating === "idle") return;
    const isIdle = occupancy.running(replica.replicaId) === 0;
    if (isIdle) void this.#terminate(replica, "idle");
    else if (replica.terminating === "no" && clock.monotonicMs() >= replica.terminateAtMs)
      void this.#terminate(replica, "busy");
  }

  async #terminate(replica: Replica, how: "busy" | "idle"): Promise<void> {
    const { clock, driver, exitMs, log, removal } = this.#parts;
    replica.terminating = how;
    await replica.creating;
    if (replica.state === "stopped") return;
    const remainingMs = Math.max(terminateMsMin, replica.graceEndsAtMs - clock.monotonicMs());
    // A second request can only shorten the first: the driver keeps the earlier end.
    const graceMs = how === "idle" ? Math.min(exitMs, remainingMs) : remainingMs;
    try {
      await driver.stop(replica.replicaId, { graceMs });
    } catch (error) {
      log.error(
        { err: error, replicaId: replica.replicaId },
        "the driver could not stop a replica",
      );
      replica.terminateAtMs = clock.monotonicMs() + stopAgainMs;
      clock.after(stopAgainMs, () => {
        replica.terminating = "no";
        this.endWhenIdle(replica);
      });
      return;
    }
    // The driver's own event usually comes first; a replica unknown to the driver is gone too.
    removal.remove(replica, { reason: "It is gone.", exitCode: null, at: clock.now() });
  }
}
