// How many runs this platform takes into its hands: enough of each app to keep its replicas busy and to have more of them
// started, and no more, so that the backlog of one app neither fills the memory nor the road of another.
import type { AppId } from "#lib/ids.ts";

/** Bounds; bytes are those of the bodies. */
export type AdmissionLimits = {
  /** All apps together, but each app may always have `alwaysMin`. */
  readonly runsMax: number;
  readonly bytesMax: number;
  /** Of one app. */
  readonly appMax: number;
};

/** Each app may have so many whatever the others have. */
const alwaysMin = 4;
const appMin = 8;

type Taken = { runs: number; bytes: number };

/** Counts what is in hand. */
export class Admission {
  readonly #limits: AdmissionLimits;
  readonly #apps = new Map<AppId, Taken>();
  #runs = 0;
  #bytes = 0;

  constructor(limits: AdmissionLimits) {
    this.#limits = limits;
  }

  /** How many more runs of the app may be taken; `places`: calls that its replicas can work on when there are as many as may be. */
  free(appId: AppId, places: number): number {
    const taken = this.#apps.get(appId)?.runs ?? 0;
    const ofApp = this.#mostOf(places) - taken;
    const ofAll = this.#limits.runsMax - this.#runs;
    return Math.max(0, Math.min(ofApp, Math.max(ofAll, alwaysMin - taken)));
  }

  /** True when it is worth looking for more runs of the app: taking them one by one would cost a look for each. */
  isHalfFree(appId: AppId, places: number): boolean {
    return (this.#apps.get(appId)?.runs ?? 0) <= this.#mostOf(places) / 2;
  }

  /** True when bodies of so many bytes more may be held; an app without any may always have one run. */
  hasBytes(appId: AppId, bytes: number): boolean {
    return this.#bytes + bytes <= this.#limits.bytesMax || !this.#apps.has(appId);
  }

  take(appId: AppId, bytes: number): void {
    const taken = this.#apps.get(appId) ?? { runs: 0, bytes: 0 };
    taken.runs++;
    taken.bytes += bytes;
    this.#apps.set(appId, taken);
    this.#runs++;
    this.#bytes += bytes;
  }

  giveBack(appId: AppId, bytes: number): void {
    const taken = this.#apps.get(appId);
    if (taken === undefined) return;
    taken.runs--;
    taken.bytes -= bytes;
    if (taken.runs <= 0) this.#apps.delete(appId);
    this.#runs--;
    this.#bytes -= bytes;
  }

  #mostOf(places: number): number {
    const { appMax } = this.#limits;
    return Math.min(appMax, Math.max(Math.min(appMin, appMax), 2 * places));
  }
}
