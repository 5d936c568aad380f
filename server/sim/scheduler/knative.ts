// The rule of Knative's autoscaler (KPA), with its defaults: pure. Written from its published
// algorithm, for comparison only.

/** Settings, with the names of its config map. Times in seconds. */
export type KnativeSettings = {
  readonly callsPerReplica: number;
  readonly targetUtilization: number;
  readonly stableWindow: number;
  readonly panicWindow: number;
  readonly panicThreshold: number;
  readonly tick: number;
  readonly scaleUpMax: number;
  readonly scaleDownMax: number;
  readonly scaleToZeroGrace: number;
  readonly targetBurstCapacity: number;
};

/** What a fresh installation has. */
export const knativeDefaults: Omit<KnativeSettings, "callsPerReplica"> = {
  targetUtilization: 0.7,
  stableWindow: 60,
  panicWindow: 6,
  panicThreshold: 2,
  tick: 2,
  scaleUpMax: 1000,
  scaleDownMax: 2,
  scaleToZeroGrace: 30,
  targetBurstCapacity: 211,
};

/** Between two ticks. Times in seconds. */
export type KnativeState = {
  readonly panicSince: number | null;
  readonly panicReplicasMax: number;
  readonly inactiveSince: number | null;
  /** Since when the activator has been between callers and replicas; null: it is not. */
  readonly bufferSince: number | null;
};

/** Before the first tick. */
export const knativeBegin: KnativeState = {
  panicSince: null,
  panicReplicasMax: 0,
  inactiveSince: null,
  bufferSince: null,
};

/** One tick: from the mean numbers of calls in both windows to the number of replicas. */
export function knativeTick(
  settings: KnativeSettings,
  state: KnativeState,
  given: {
    readonly now: number;
    readonly stable: number;
    readonly panic: number;
    readonly readyCount: number;
  },
): { readonly desired: number; readonly state: KnativeState } {
  const { now } = given;
  const target = settings.callsPerReplica * settings.targetUtilization;
  const ready = Math.max(1, given.readyCount);
  const within = (count: number): number =>
    Math.min(
      Math.max(count, Math.floor(ready / settings.scaleDownMax)),
      Math.ceil(settings.scaleUpMax * ready),
    );
  const stable = within(Math.ceil(given.stable / target));
  const panic = within(Math.ceil(given.panic / target));
  const isOver = Math.ceil(given.panic / target) / ready >= settings.panicThreshold;
  let { panicSince, panicReplicasMax } = state;
  if (isOver) panicSince = now;
  else if (panicSince !== null && panicSince + settings.stableWindow < now) {
    panicSince = null;
    panicReplicasMax = 0;
  }
  if (panicSince !== null) panicReplicasMax = Math.max(panicReplicasMax, stable, panic);
  const raw = panicSince === null ? stable : panicReplicasMax;
  const spare =
    given.readyCount * settings.callsPerReplica - settings.targetBurstCapacity - given.panic;
  const bufferSince = spare < 0 ? (state.bufferSince ?? now) : null;
  const isIdle = raw === 0 && given.readyCount > 0;
  const inactiveSince = isIdle ? (state.inactiveSince ?? now) : null;
  const isWaitOver = (since: number | null): boolean =>
    since !== null && now - since >= settings.scaleToZeroGrace;
  const mayGo =
    inactiveSince !== null &&
    inactiveSince < now &&
    (isWaitOver(inactiveSince) || isWaitOver(bufferSince));
  return {
    desired: isIdle && !mayGo ? 1 : raw,
    state: { panicSince, panicReplicasMax, inactiveSince, bufferSince },
  };
}

/**
 * Means over the last seconds, of totals that are added second by second; a window that is not full
 * yet is shorter.
 */
export class KnativeWindow {
  readonly #seconds: number;
  #values: number[] = [];

  constructor(seconds: number) {
    this.#seconds = seconds;
  }

  /** Adds the mean of the second that has just passed. */
  add(value: number): void {
    this.#values = [...this.#values, value].slice(-this.#seconds);
  }

  /** Forgets everything, as when nobody has reported for a whole window. */
  clear(): void {
    this.#values = [];
  }

  get mean(): number {
    return this.#values.reduce((sum, value) => sum + value, 0) / Math.max(1, this.#values.length);
  }
}
