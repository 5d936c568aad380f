// A model of the proxy: a queue of waiting calls per app, replicas with a concurrency limit,
// nothing else. It implements the rules that the scheduler relies on, and counts the outcome of
// each call.
import type { Clock } from "#lib/clock.ts";
import type { AppId, ReplicaId } from "#lib/ids.ts";
import { CallMeter, CallTimes } from "#proxy/call-meter.ts";
import type { Demand, DemandSource, Occupancy } from "#scheduler/demand.ts";
import type { ReplicaView } from "#scheduler/replica-view.ts";

type Waiting = { readonly durationMs: number; readonly arrivedAtMs: number };

type Line = { readonly waiting: Waiting[]; readonly meter: CallMeter };

/** A queue of this length empties well within the quiet time at the end. */
const shortLine = 10;

/** The proxy of one platform process. */
export class ModelProxy implements DemandSource, Occupancy {
  readonly outcomes = { served: 0, refused: 0, crashed: 0 };
  /** Called when a call begins to run, with the time that it waited. */
  onBegin: (waitedMs: number) => void = () => undefined;
  /** Called when calls break off on a replica. */
  onBroken: (replicaId: ReplicaId) => void = () => undefined;
  readonly #lineLengthMax: number;
  #view: ReplicaView | null = null;
  #nudge: (appId: AppId) => void = () => undefined;
  readonly #clock: Clock;
  readonly #lines = new Map<AppId, Line>();
  /** The end times of the calls that each replica is processing. */
  readonly #running = new Map<ReplicaId, Set<() => void>>();
  readonly #appOf = new Map<ReplicaId, AppId>();
  readonly #retired = new Set<ReplicaId>();

  constructor(
    clock: Clock,
    { lineLengthMax = shortLine }: { readonly lineLengthMax?: number } = {},
  ) {
    this.#clock = clock;
    this.#lineLengthMax = lineLengthMax;
  }

  connect(view: ReplicaView, nudge: (appId: AppId) => void): void {
    this.#view = view;
    this.#nudge = nudge;
    view.onChange((appId) => this.#dispatch(appId));
  }

  /** A call arrives. */
  call(appId: AppId, durationMs: number): void {
    const line = this.#line(appId);
    const nowMs = this.#clock.monotonicMs();
    line.meter.receivedTotal++;
    line.meter.lastActiveAtMs = nowMs;
    if (line.waiting.length < this.#lineLengthMax)
      line.waiting.push({ durationMs, arrivedAtMs: nowMs });
    else this.outcomes.refused++;
    this.#dispatch(appId);
    if (line.waiting.length > 0) this.#nudge(appId);
  }

  demandOf(appId: AppId): Demand {
    const { meter, waiting } = this.#line(appId);
    const { running, receivedTotal, lastActiveAtMs } = meter;
    const runMs = meter.runMs(this.#clock.monotonicMs());
    return { running, waiting: waiting.length, receivedTotal, lastActiveAtMs, runMs };
  }

  running(replicaId: ReplicaId): number {
    return this.#running.get(replicaId)?.size ?? 0;
  }

  retire(replicaId: ReplicaId): void {
    this.#retired.add(replicaId);
  }

  /** The replica works on a run of an earlier process, for ever. */
  hold(replicaId: ReplicaId): void {
    this.#running.set(replicaId, new Set([() => undefined]));
  }

  /** The connection to a replica breaks: its calls fail. */
  lose(replicaId: ReplicaId): void {
    const calls = this.#running.get(replicaId);
    if (calls === undefined) return;
    this.#retired.add(replicaId);
    for (const cancel of calls) {
      cancel();
      this.outcomes.crashed++;
      this.#ended(replicaId);
    }
    this.#running.delete(replicaId);
    if (calls.size > 0) this.onBroken(replicaId);
  }

  /** A replica of the app with a free slot, if any. */
  free(appId: AppId): ReplicaId | undefined {
    const ready = this.#view?.ready(appId) ?? [];
    return ready.find(
      (one) => !this.#retired.has(one.replicaId) && this.running(one.replicaId) < one.concurrency,
    )?.replicaId;
  }

  #dispatch(appId: AppId): void {
    const line = this.#line(appId);
    if (this.#view?.failure(appId) !== undefined)
      this.outcomes.refused += line.waiting.splice(0).length;
    for (let free = this.free(appId); free !== undefined; free = this.free(appId)) {
      const call = line.waiting.shift();
      if (call === undefined) return;
      this.#run(appId, free, call);
    }
  }

  #run(appId: AppId, replicaId: ReplicaId, call: Waiting): void {
    const calls = this.#running.get(replicaId) ?? new Set();
    this.#running.set(replicaId, calls);
    this.#appOf.set(replicaId, appId);
    const nowMs = this.#clock.monotonicMs();
    this.#line(appId).meter.began(nowMs);
    this.onBegin(nowMs - call.arrivedAtMs);
    const cancel = this.#clock.after(call.durationMs, () => {
      calls.delete(cancel);
      this.outcomes.served++;
      this.#ended(replicaId);
      if (this.#retired.has(replicaId) && calls.size === 0) this.#nudge(appId);
      this.#dispatch(appId);
    });
    calls.add(cancel);
  }

  #ended(replicaId: ReplicaId): void {
    const appId = this.#appOf.get(replicaId);
    if (appId === undefined) return;
    const { meter } = this.#line(appId);
    const nowMs = this.#clock.monotonicMs();
    meter.ended(nowMs);
    meter.lastActiveAtMs = nowMs;
  }

  #line(appId: AppId): Line {
    const line = this.#lines.get(appId) ?? {
      waiting: [],
      meter: new CallMeter(appId, new CallTimes()),
    };
    this.#lines.set(appId, line);
    return line;
  }
}
