// Assembles async runs: accepting, processing, settling, taking over. One per platform.
import type { FinalState } from "@slipway/contract/words.ts";
import type { Routes } from "#apps/routes.ts";
import type { AppId, RunId } from "#lib/ids.ts";
import { AnswerDecoder } from "#proxy/answer-decoder.ts";
import type { AsyncAccept, AsyncCall } from "#proxy/async-accept.ts";
import type { CalledApps } from "#proxy/called-apps.ts";
import type { Proxy } from "#proxy/proxy.ts";
import type { Foundation } from "#store/foundation.ts";
import { Leases } from "#store/lease.ts";
import type { Notifications } from "#store/notify.ts";
import type { Outbox } from "#webhooks/outbox.ts";
import { AnswerMemory } from "./answer-memory.ts";
import { Enqueue, type EnqueueOptions } from "./enqueue.ts";
import type { ExecutionParts } from "./execution.ts";
import { HeldRuns } from "./held-runs.ts";
import { LiveSettings } from "./live-settings.ts";
import { ReplicaHolds } from "./replica-holds.ts";
import type { OnRunStep } from "./run-steps.ts";
import { RunStore } from "./run-store.ts";
import { Runner } from "./runner.ts";
import { RunSettlement } from "./settlement.ts";

export type RunsOptions = Pick<Foundation, "db" | "sealer" | "instanceId" | "clock" | "log"> & {
  readonly notifications: Pick<Notifications, "listen">;
  readonly proxy: Pick<Proxy, "run">;
  readonly calledApps: Pick<CalledApps, "hold">;
  readonly routes: Pick<Routes, "byAppId">;
  readonly outbox: Pick<Outbox, "add" | "committed">;
  readonly bodyBytesMax: number;
  readonly ownerKeyOf: EnqueueOptions["ownerKeyOf"];
  readonly storeRefusal: EnqueueOptions["storeRefusal"];
  /** The maximum size of an answer that is kept. */
  readonly answerBytesMax: number;
  /** How many runs of all apps this process holds at most. */
  readonly runsAtOnce: number;
  /** The length of an app's call line, which runs share with plain calls. */
  readonly lineLength: number;
  /** How long a lease of a run lasts. */
  readonly leaseMs?: number;
  /** True while the app takes no calls, such as while a budget stops it: no run is claimed. */
  readonly isStopped: (appId: AppId) => boolean;
  readonly scheduler: ExecutionParts["scheduler"];
  /** Client for replicas that keep answers; created here by default. */
  readonly heldRuns?: Pick<HeldRuns, "attach" | "acknowledge" | "cancel" | "close">;
  readonly onStep: OnRunStep;
};

/**
 * How long a lease lasts by default. After a platform died, its runs wait this long for another
 * platform.
 */
const leaseMsDefault = 30_000;

/**
 * The async runs. Call `prepare()` before replicas may be stopped, `start()` once they are known,
 * `drain()` and `stop()` at the end.
 */
export class Runs implements AsyncAccept {
  readonly #options: RunsOptions;
  readonly #leases: Leases<"runs">;
  readonly #heldRuns: NonNullable<RunsOptions["heldRuns"]>;
  readonly #replicaHolds: ReplicaHolds;
  readonly #settlement: RunSettlement;
  readonly #runner: Runner;
  readonly #enqueue: Enqueue;
  readonly #unlisten: (() => void)[] = [];

  constructor(options: RunsOptions) {
    this.#options = options;
    const { db, sealer, outbox, clock, log, instanceId, onStep } = options;
    const { proxy, calledApps, scheduler, answerBytesMax, bodyBytesMax, ownerKeyOf } = options;
    const { leaseMs = leaseMsDefault } = options;
    const store = new RunStore({ db, holder: instanceId, leaseMs });
    const settings = new LiveSettings(options.routes);
    this.#leases = new Leases({ db, table: "runs", holder: instanceId, leaseMs, log, clock });
    this.#heldRuns = options.heldRuns ?? new HeldRuns({ clock, log });
    this.#replicaHolds = new ReplicaHolds({ store, calledApps });
    this.#settlement = new RunSettlement({ db, store, outbox, sealer, clock, log, onStep });
    const common = {
      store,
      clock,
      log,
      answerBytesMax,
      scheduler,
      heldRuns: this.#heldRuns,
      settlement: this.#settlement,
      keepsAnswers: (appId: AppId) => settings.keepsAnswers(appId),
      hasReplicaAlone: (appId: AppId) => settings.hasReplicaAlone(appId),
      callMsMax: (appId: AppId) => settings.callMsMax(appId),
    };
    this.#runner = new Runner({
      store,
      leases: this.#leases,
      leaseMs,
      clock,
      log,
      onStep,
      execution: {
        ...common,
        proxy,
        calledApps,
        answerMemory: new AnswerMemory({ answerBytesMax, ownerKeyOf }),
        decoder: new AnswerDecoder(answerBytesMax, ownerKeyOf),
        // A quarter of a lease is left for the request to the replica.
        startMsMax: (leaseMs * 3) / 4,
      },
      recovery: common,
      slotsMaxOf: (appId) => settings.slotsMax(appId),
      isStopped: options.isStopped,
      runsMax: options.runsAtOnce,
      lineLengthMax: options.lineLength,
      onTakenOver: (runId, replica) => this.#replicaHolds.takeOver(runId, replica),
      onLooked: () => this.#replicaHolds.releaseOthers(),
    });
    this.#enqueue = new Enqueue({
      db,
      store,
      sealer,
      clock,
      log,
      onStep,
      runner: this.#runner,
      bodyBytesMax,
      ownerKeyOf,
      storeRefusal: options.storeRefusal,
    });
  }

  /**
   * The numbers of the runs that this process has accepted and, by state, of those that it has
   * ended.
   */
  get counts(): { readonly accepted: number; readonly ended: ReadonlyMap<FinalState, number> } {
    return { accepted: this.#enqueue.acceptedTotal, ended: this.#settlement.ended };
  }

  accept(call: AsyncCall): void {
    this.#enqueue.accept(call);
  }

  /** Called when a cancel request was committed, to handle it now. */
  cancel(runId: RunId): void {
    this.#runner.cancel(runId);
  }

  /**
   * Ends the leases of an earlier process of this instance, and marks the replicas that still work
   * for it as busy, so that none is stopped as idle.
   */
  async prepare(): Promise<void> {
    await this.#leases.endEarlier();
    await this.#replicaHolds.holdAll();
  }

  start(): void {
    const { notifications } = this.#options;
    this.#unlisten.push(
      notifications.listen("runs", (appId) => this.#runner.nudge(appId as AppId | null)),
      notifications.listen("run_cancels", (runId) => {
        if (runId !== null) this.#runner.cancel(runId as RunId);
      }),
    );
    this.#runner.start();
  }

  /**
   * Claims nothing more, gives back waiting runs, and waits up to `waitMs` for those whose answers
   * only this process can receive. Runs accepted from here on wait for the next start.
   */
  drain(waitMs: number): Promise<void> {
    return this.#runner.drain(waitMs);
  }

  /** Lets go of all runs. */
  async stop(): Promise<void> {
    for (const unlisten of this.#unlisten.splice(0)) unlisten();
    await this.#enqueue.stop();
    await this.#runner.stop();
    await this.#settlement.stop();
    await this.#heldRuns.close();
    this.#replicaHolds.releaseAll();
  }
}
