// Limits how many runs this platform holds: enough of each app to keep its replicas busy and to
// make the scheduler start more, but no more, so that one app's backlog neither fills the memory
// nor blocks other apps.
import { getOrInsert } from "#lib/get-or-insert.ts";
import type { AppId } from "#lib/ids.ts";

/** The limits of held runs; bytes are those of request bodies. */
export type AdmissionLimits = {
  /** The maximum number of runs of all apps together, but each app may always have `alwaysMin`. */
  readonly runsMax: number;
  /** The maximum for all apps together, but an app that holds no run may always have one. */
  readonly bytesMax: number;
  /** The maximum number of runs per app. */
  readonly appMax: number;
};

/** Each app may have this many runs regardless of the others. */
const alwaysMin = 4;
/** The limit of an app whose replicas have few slots, unless `appMax` is lower. */
const appMin = 8;

/** What one app holds; `bytes` counts the request bodies. */
type Usage = { runs: number; bytes: number };

/** Counts the held runs. */
export class Admission {
  readonly #limits: AdmissionLimits;
  readonly #apps = new Map<AppId, Usage>();
  #runs = 0;
  #bytes = 0;

  constructor(limits: AdmissionLimits) {
    this.#limits = limits;
  }

  /**
   * How many more runs of the app may be claimed; `slots`: how many calls its replicas can handle
   * at once when fully scaled out.
   */
  free(appId: AppId, slots: number): number {
    const usage = this.#apps.get(appId)?.runs ?? 0;
    const freeOfApp = this.#maxOf(slots) - usage;
    const freeInAll = this.#limits.runsMax - this.#runs;
    const freeDespiteOthers = Math.max(freeInAll, alwaysMin - usage);
    return Math.max(0, Math.min(freeOfApp, freeDespiteOthers));
  }

  /**
   * True when at least half of the app's limit is free. Only then is claiming more runs worth a
   * query: claiming them one by one would cost a query each.
   */
  isHalfFree(appId: AppId, slots: number): boolean {
    return (this.#apps.get(appId)?.runs ?? 0) <= this.#maxOf(slots) / 2;
  }

  /**
   * True when this many more bytes of bodies may be held; an app that holds no run may always have
   * one.
   */
  hasBytes(appId: AppId, bytes: number): boolean {
    return this.#bytes + bytes <= this.#limits.bytesMax || !this.#apps.has(appId);
  }

  take(appId: AppId, bytes: number): void {
    const usage = getOrInsert(this.#apps, appId, () => ({ runs: 0, bytes: 0 }));
    usage.runs++;
    usage.bytes += bytes;
    this.#runs++;
    this.#bytes += bytes;
  }

  giveBack(appId: AppId, bytes: number): void {
    const usage = this.#apps.get(appId);
    if (usage === undefined) return;
    usage.runs--;
    usage.bytes -= bytes;
    if (usage.runs <= 0) this.#apps.delete(appId);
    this.#runs--;
    this.#bytes -= bytes;
  }

  /**
   * The limit of an app whose replicas have `slots` slots in total. Twice that number lets the next
   * run be at hand whenever one ends.
   */
  #maxOf(slots: number): number {
    return Math.min(this.#limits.appMax, Math.max(appMin, 2 * slots));
  }
}
