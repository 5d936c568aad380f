// Manages replicas from their start to their end: connects the driver with the parts that start,
// watch, drain and remove them, and passes on the driver's events and lines. How many replicas
// there should be is decided elsewhere.
import type { Driver, ReplicaEvent } from "#drivers/driver.ts";
import type { AppId, ReplicaId } from "#lib/ids.ts";
import type { Foundation } from "#store/foundation.ts";
import { adoptReplicas, compareReplicas, type AdoptParts } from "./adopt.ts";
import type { RouteSource } from "./app-state.ts";
import type { Counters } from "./counters.ts";
import type { Occupancy } from "./demand.ts";
import { writeHeartbeats } from "./heartbeat.ts";
import { networkProbe, type Probe } from "./probe.ts";
import { Fleet, type Replica, type ReplicaEnd } from "./replica.ts";
import { ReplicaDrain } from "./replica-drain.ts";
import { ReplicaEnds } from "./replica-ends.ts";
import { ReplicaLines, type LineStore } from "./replica-lines.ts";
import { ReplicaRemoval, type RemovalEvents } from "./replica-removal.ts";
import type { ReplicaRows } from "./replica-rows.ts";
import { ReplicaStarter, type EnvironmentOf } from "./replica-starter.ts";
import type { ReplicaState } from "./replica-state.ts";
import { ReplicaWatch } from "./replica-watch.ts";
import { RowWriter } from "./row-writer.ts";

export type ReplicaParts = Pick<Foundation, "clock" | "log"> & {
  readonly driver: Driver;
  /** Identifies this platform in the rows of the replicas that it looks after. */
  readonly instanceId: string;
  readonly rows: ReplicaRows;
  readonly routes: RouteSource;
  readonly occupancy: Occupancy;
  readonly environmentOf: EnvironmentOf;
  readonly lines: LineStore;
  /** How long a replica without calls may take to exit after SIGTERM. */
  readonly exitMs: number;
  /** How long a replica may wait for a machine or its image. */
  readonly pendingMs: number;
  /** The file with ends that happened while no platform ran; null: none. See `AdoptParts`. */
  readonly endsFile: string | null;
  /** Probes replicas; over the network by default. */
  readonly probe?: Probe;
};

/** The state of a replica just before its end, and whether it had calls. */
export type EndedFrom = {
  readonly stateBefore: ReplicaState;
  /** True when calls ran on the replica, or had just broken off there. */
  readonly hadCalls: boolean;
};

/** Callbacks about replicas. Each must return at once. */
export type ReplicaListener = {
  /** Called when the replicas of an app have changed, or the calls that they can take. */
  readonly onChange: (appId: AppId) => void;
  readonly onReady: (replica: Replica) => void;
  /** Called when a replica has ended. Its lines may follow until `onForgotten`. */
  readonly onEnd: (replica: Replica, end: ReplicaEnd, from: EndedFrom) => void;
  /** Called when the replica's end and all its lines are stored. */
  readonly onForgotten: (replica: Replica) => void;
};

/** The replicas of one platform; one per scheduler. */
export class ReplicaLifecycle {
  readonly fleet = new Fleet();
  readonly starter: ReplicaStarter;
  readonly drain: ReplicaDrain;
  readonly ends: ReplicaEnds;
  readonly lines: ReplicaLines;
  readonly #parts: ReplicaParts;
  readonly #adoptParts: AdoptParts;
  readonly #writer: RowWriter;
  readonly #removal: ReplicaRemoval;
  readonly #watch: ReplicaWatch;

  constructor(parts: ReplicaParts, counters: Counters, listener: ReplicaListener) {
    const { driver, rows, routes, occupancy, environmentOf, exitMs, pendingMs, clock, log } = parts;
    const { fleet } = this;
    const { onChange } = listener;
    const writer = new RowWriter({ rows, clock, log });
    const common = { driver, writer, fleet, counters, clock, log, onChange };
    this.ends = new ReplicaEnds({ lines: parts.lines, clock, log });
    const removal = new ReplicaRemoval({ ...common, events: this.#endEvents(listener) });
    const ownerOf = (replicaId: ReplicaId) => removal.ownerOf(replicaId);
    const lines = new ReplicaLines({ store: parts.lines, ownerOf, clock, log });
    const drain = new ReplicaDrain({ ...common, occupancy, exitMs, removal });
    const watch = new ReplicaWatch({
      ...common,
      drain,
      probe: parts.probe ?? networkProbe(clock),
      pendingMs,
      onReady: (replica) => {
        listener.onReady(replica);
        onChange(replica.appId);
      },
      onNotice: (replica, text) => lines.notice(replica, text),
    });
    const backend = {
      instanceId: parts.instanceId,
      installationId: driver.installationId,
      name: driver.name,
      isShared: driver.isShared,
    };
    this.starter = new ReplicaStarter({
      ...common,
      backend,
      rows,
      environmentOf,
      restartsOf: (appId) => routes.byAppId(appId)?.restarts ?? 0,
      watch,
      removal,
    });
    this.drain = drain;
    this.lines = lines;
    this.#parts = parts;
    this.#adoptParts = { ...parts, backend, writer, fleet, watch, drain, removal };
    this.#writer = writer;
    this.#removal = removal;
    this.#watch = watch;
  }

  /**
   * Opens the driver and adopts its replicas. Rejects when the database or the driver does not
   * answer.
   */
  async adopt(): Promise<void> {
    await adoptReplicas(this.#adoptParts, {
      event: (event) => this.#event(event),
      lines: (lines) => this.lines.append(lines),
    });
  }

  /** Compares the rows of replicas with what the driver runs; see `compareReplicas`. */
  async compare(): Promise<void> {
    await compareReplicas(this.#adoptParts);
  }

  /** Writes the heartbeats of replicas; see `writeHeartbeats`. */
  async writeHeartbeats(): Promise<void> {
    const { driver, rows, clock } = this.#parts;
    await writeHeartbeats({ fleet: this.fleet, driver, rows, clock });
  }

  /** Closes the driver; replicas keep running. Waits up to `waitMs` for starts, then for writes. */
  async stop(waitMs: number): Promise<void> {
    await this.starter.settle(waitMs);
    this.#removal.stop();
    this.#watch.stop();
    await this.#writer.stop(waitMs);
    await this.#parts.driver.close();
  }

  /**
   * True when the replica ends, or has ended lately, to make way for a protected one: its runs are
   * not at fault.
   */
  isReclaimed(replicaId: ReplicaId): boolean {
    const replica = this.fleet.get(replicaId);
    if (replica === undefined) return this.ends.wasReclaimed(replicaId);
    return replica.endOrder?.kind === "reclaimed";
  }

  /** Number of replicas whose rows lag behind because the database does not answer. */
  get unwrittenRows(): number {
    return this.#writer.waiting;
  }

  /** Handles an event of the driver. An unknown replica has been removed already. */
  #event(event: ReplicaEvent): void {
    const replica = this.fleet.get(event.replicaId);
    if (replica === undefined) return;
    if (event.kind === "started") {
      this.#watch.started(replica, event);
      return;
    }
    // If the driver does not know when the replica ended, usage counts until it was last seen.
    this.#removal.remove(replica, { ...event, at: event.at ?? replica.seenAtMs });
  }

  /** What happens when a replica is gone, and when its last lines are stored. */
  #endEvents({ onChange, onEnd, onForgotten }: ReplicaListener): RemovalEvents {
    return {
      onGone: (replica, end) => this.#shownEnd(replica, end),
      onEnd: (replica, end, stateBefore) => {
        onEnd(replica, end, { stateBefore, hadCalls: this.#hasCalls(replica) });
        onChange(replica.appId);
      },
      onForgotten: (replica, end) => {
        onForgotten(replica);
        void this.ends.report(replica, end);
      },
    };
  }

  /** The end of a replica that is gone, as the app's owner sees it. */
  #shownEnd(replica: Replica, end: ReplicaEnd): ReplicaEnd {
    this.ends.ended(replica, end);
    // If the replica never became ready, a quote of its output always explains the failed start.
    if (replica.readyAtMs === null) return end;
    return this.ends.shown(replica.replicaId, end, this.#hasCalls(replica));
  }

  /** True when calls run on the replica, or have just broken off there. */
  #hasCalls({ replicaId }: Replica): boolean {
    return this.#parts.occupancy.running(replicaId) > 0 || this.ends.hasBrokenCalls(replicaId);
  }
}
