// Knative's contender: its rule, with replicas that take calls the moment they have started and one
// line for all of them, which is the best that its activator does.
import type { ReleaseId, ReplicaId } from "#lib/ids.ts";
import { ReplicaView, type ReadyReplica } from "#scheduler/replica-view.ts";
import { ModelProxy } from "#test/support/model-proxy.ts";
import type { VirtualClock } from "#test/support/virtual-clock.ts";
import { callsPerReplica, coldMs, lineLengthMax, loadAppId, type Contender } from "./contender.ts";
import {
  knativeBegin,
  knativeDefaults,
  knativeTick,
  KnativeWindow,
  type KnativeSettings,
} from "./knative.ts";

type Pod = ReadyReplica & { readonly order: number; state: "starting" | "ready" | "draining" };

/** How often the number of calls is looked at for the mean of a second. */
const samplesPerSecond = 10;

/** Scales with these settings. */
export class KnativeContender implements Contender {
  readonly proxy: ModelProxy;
  readonly #clock: VirtualClock;
  readonly #settings: KnativeSettings;
  readonly #view = new ReplicaView();
  readonly #stable: KnativeWindow;
  readonly #panic: KnativeWindow;
  #pods: readonly Pod[] = [];
  #state = knativeBegin;
  #order = 0;
  #isRunning = true;

  constructor(clock: VirtualClock, changes: Partial<KnativeSettings> = {}) {
    this.#clock = clock;
    this.#settings = { ...knativeDefaults, callsPerReplica, ...changes };
    this.#stable = new KnativeWindow(this.#settings.stableWindow);
    this.#panic = new KnativeWindow(this.#settings.panicWindow);
    this.proxy = new ModelProxy(clock, { lineLengthMax });
    // Called when a call waits, and when the last call of a draining replica has ended.
    this.proxy.connect(this.#view, () => this.#onNudge());
    this.#everySecond(0, 0);
    this.#everyTick();
  }

  replicaCount(): number {
    return this.#pods.length;
  }

  stop(): Promise<void> {
    this.#isRunning = false;
    return Promise.resolve();
  }

  /** A call that finds no replica pokes the autoscaler, which otherwise waits for its tick. */
  #onNudge(): void {
    this.#forgetDrained();
    if (this.#kept().length > 0 || this.proxy.demandOf(loadAppId).waiting === 0) return;
    this.#measured(1);
    this.#decide();
  }

  #everySecond(sample: number, sum: number): void {
    if (!this.#isRunning) return;
    this.#clock.after(1000 / samplesPerSecond, () => {
      const { running, waiting } = this.proxy.demandOf(loadAppId);
      if (sample + 1 < samplesPerSecond) {
        this.#everySecond(sample + 1, sum + running + waiting);
        return;
      }
      this.#measured((sum + running + waiting) / samplesPerSecond);
      this.#everySecond(0, 0);
    });
  }

  #measured(mean: number): void {
    // Nobody reports for an app without replicas and calls.
    if (mean === 0 && this.#kept().length === 0) {
      this.#stable.clear();
      this.#panic.clear();
      return;
    }
    this.#stable.add(mean);
    this.#panic.add(mean);
  }

  #everyTick(): void {
    if (!this.#isRunning) return;
    this.#clock.after(this.#settings.tick * 1000, () => {
      this.#decide();
      this.#everyTick();
    });
  }

  #decide(): void {
    const now = this.#clock.monotonicMs() / 1000;
    const kept = this.#kept();
    const readyCount = kept.filter(({ state }) => state === "ready").length;
    const means = { stable: this.#stable.mean, panic: this.#panic.mean };
    const { desired, state } = knativeTick(this.#settings, this.#state, {
      now,
      ...means,
      readyCount,
    });
    this.#state = state;
    for (let count = kept.length; count < desired; count++) this.#start();
    const running = ({ replicaId }: Pod): number => this.proxy.running(replicaId);
    // Kubernetes ends those first that are not ready, then the youngest; here those with the fewest
    // calls, as with us.
    const first = kept.toSorted(
      (left, right) =>
        Number(left.state === "ready") - Number(right.state === "ready") ||
        running(left) - running(right) ||
        right.order - left.order,
    );
    for (const pod of first.slice(0, Math.max(0, kept.length - desired))) {
      pod.state = "draining";
      this.proxy.retire(pod.replicaId);
    }
    this.#forgetDrained();
  }

  #start(): void {
    const order = this.#order++;
    const replicaId = `knative-${order}` as ReplicaId;
    const pod: Pod = {
      replicaId,
      appId: loadAppId,
      releaseId: "release" as ReleaseId,
      concurrency: callsPerReplica,
      address: { host: replicaId, port: 1 },
      order,
      state: "starting",
    };
    this.#pods = [...this.#pods, pod];
    this.#clock.after(coldMs, () => {
      if (pod.state !== "starting") return;
      pod.state = "ready";
      this.#show();
    });
  }

  #kept(): readonly Pod[] {
    return this.#pods.filter(({ state }) => state !== "draining");
  }

  #forgetDrained(): void {
    const before = this.#pods.length;
    this.#pods = this.#pods.filter(
      ({ state, replicaId }) => state !== "draining" || this.proxy.running(replicaId) > 0,
    );
    if (this.#pods.length < before) this.#show();
  }

  #show(): void {
    this.#view.put(loadAppId, {
      ready: this.#pods.filter(({ state }) => state === "ready"),
      failure: undefined,
    });
  }
}
