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
import type { OnRunStep } from "./run-steps.ts";
import { RunStore } from "./run-store.ts";
import { Runner, type ReplicaRef } from "./runner.ts";
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
  readonly answerBytesMax: number;
  readonly runsAtOnce: number;
  readonly lineLength: number;
  readonly leaseMs?: number;
  /** True while a budget has stopped the app: its runs are not claimed. */
  readonly isStopped: (appId: AppId) => boolean;
  readonly scheduler: ExecutionParts["scheduler"];
  /** Client for replicas that keep answers; created here by default. */
  readonly heldRuns?: Pick<HeldRuns, "attach" | "acknowledge" | "cancel" | "close">;
  readonly onStep: OnRunStep;
};

const leaseMsDefault = 30_000;

/**
 * Call `prepare()` before replicas may be stopped, `start()` once they are known, `quiesce()` and
 * `stop()` at the end.
 */
export class Runs implements AsyncAccept {
  readonly #options: RunsOptions;
  readonly #store: RunStore;
  readonly #leases: Leases<"runs">;
  readonly #heldRuns: NonNullable<RunsOptions["heldRuns"]>;
  readonly #settlement: RunSettlement;
  readonly #runner: Runner;
  readonly #enqueue: Enqueue;
  /**
   * Marks replicas busy with runs that an earlier process sent, until this process holds each run.
   */
  readonly #holds = new Map<RunId, () => void>();
  readonly #unlisten: (() => void)[] = [];

  constructor(options: RunsOptions) {
    this.#options = options;
    const {
      db,
      sealer,
      outbox,
      clock,
      log,
      instanceId,
      proxy,
      calledApps,
      scheduler,
      answerBytesMax,
      leaseMs = leaseMsDefault,
    } = options;
    const { onStep } = options;
    const store = new RunStore({ db, holder: instanceId, leaseMs });
    this.#store = store;
    this.#leases = new Leases({ db, table: "runs", holder: instanceId, leaseMs, log, clock });
    this.#heldRuns = options.heldRuns ?? new HeldRuns({ clock, log });
    this.#settlement = new RunSettlement({ db, store, outbox, sealer, clock, log, onStep });
    const { bodyBytesMax, ownerKeyOf } = options;
    const keepsAnswers = (appId: AppId): boolean => this.#live(appId)?.runtime === "cortex";
    const common = {
      store,
      clock,
      log,
      answerBytesMax,
      keepsAnswers,
      scheduler,
      hasReplicaAlone: (appId: AppId) => this.#live(appId)?.replicaConcurrency === 1,
      heldRuns: this.#heldRuns,
      settlement: this.#settlement,
      callMsMax: (appId: AppId) => (this.#live(appId)?.responseGracePeriodSeconds ?? 0) * 1000,
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
      placesOf: (appId) => this.#slotsOf(appId),
      isStopped: options.isStopped,
      runsMax: options.runsAtOnce,
      lineLengthMax: options.lineLength,
      onTakenOver: (runId, replica) => this.#holdFor(runId, replica),
      onLooked: () => this.#releaseOthers(),
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

  /** Runs that this process has accepted, and those that it has ended, per state. */
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
   * Marks replicas busy that still work for an earlier process, so that none is stopped as idle.
   */
  async prepare(): Promise<void> {
    await this.#leases.endEarlier();
    for (const { runId, appId, replicaId } of await this.#store.leftRunning()) {
      this.#holds.set(runId, this.#options.calledApps.hold(appId, replicaId));
    }
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
   * Claims nothing more, and gives back waiting runs; runs accepted from here on wait for the next
   * start.
   */
  quiesce(): void {
    this.#runner.quiesce();
  }

  /** Waits up to `waitMs` for runs whose answers only this process can receive. */
  async stop(waitMs: number): Promise<void> {
    for (const unlisten of this.#unlisten.splice(0)) unlisten();
    await this.#enqueue.stop();
    await this.#runner.stop(waitMs);
    await this.#settlement.stop();
    await this.#heldRuns.close();
    for (const release of this.#holds.values()) release();
  }

  #live(
    appId: AppId,
  ): NonNullable<NonNullable<ReturnType<Routes["byAppId"]>>["live"]>["settings"] | undefined {
    return this.#options.routes.byAppId(appId)?.live?.settings;
  }

  #slotsOf(appId: AppId): number | undefined {
    const live = this.#live(appId);
    return live === undefined ? undefined : live.maxReplicaCount * live.replicaConcurrency;
  }

  /**
   * Releases the replicas of runs that an earlier process had sent, and that another platform has
   * taken over or ended.
   */
  async #releaseOthers(): Promise<void> {
    if (this.#holds.size === 0) return;
    const stillRunning = new Set((await this.#store.leftRunning()).map(({ runId }) => runId));
    for (const [runId, release] of this.#holds) {
      if (stillRunning.has(runId)) continue;
      this.#holds.delete(runId);
      release();
    }
  }

  /** Keeps the replica of a run busy until the returned function is called. */
  #holdFor(runId: RunId, replica: ReplicaRef | null): () => void {
    const earlierHold = this.#holds.get(runId);
    this.#holds.delete(runId);
    if (earlierHold !== undefined) return earlierHold;
    if (replica === null) return () => undefined;
    return this.#options.calledApps.hold(replica.appId, replica.replicaId);
  }
}
