// Which releases wait for a pool with enough free, in which order they get it, and why others must
// wait: protected replicas come first, then whoever has waited longer. What the first ones lack is
// not given to those behind them, so that none starves.
import type { AppSettings } from "@slipway/contract/app-settings.ts";
import type { Driver } from "#drivers/driver.ts";
import type { PoolWish } from "#drivers/pools/choose-pool.ts";
import { wishOf } from "#drivers/pools/fit.ts";
import type { Clock } from "#lib/clock.ts";
import type { AppId, ReleaseId } from "#lib/ids.ts";
import type { ProtectedWish } from "./reclaim.ts";
import { chooseCompute, type ComputeChoice } from "./replica-spec.ts";

/** A release for which a replica is wanted. */
export type WaitingRelease = {
  readonly appId: AppId;
  readonly releaseId: ReleaseId;
  readonly settings: AppSettings;
};

type Entry = WaitingRelease & {
  readonly wish: PoolWish;
  readonly isProtected: boolean;
  /** Lower numbers are first. */
  order: number;
  sinceMs: number;
  /** It waits no longer if it does not say so again by then. */
  untilMs: number;
};

type LineParts = {
  readonly driver: Pick<Driver, "outage" | "pools">;
  readonly clock: Clock;
  /** Called when a protected release waits, with all that do, the first one first. */
  readonly onProtectedWait: (waiting: readonly ProtectedWish[]) => void;
};

/** One that needs very much may wait for long: then others have their turn. */
const turnMsMax = 600_000;
/** Each turn of an app says again what it waits for, a build every few seconds. */
const stillWaitsMs = 15_000;

/** The line; one per scheduler. Bounded by the number of releases that are to serve. */
export class CapacityLine {
  readonly #parts: LineParts;
  readonly #entries = new Map<ReleaseId, Entry>();
  #orders = 0;

  constructor(parts: LineParts) {
    this.#parts = parts;
  }

  /** The compute type that a replica of the release can have now, or why it can have none. */
  choose(release: WaitingRelease): ComputeChoice {
    return chooseCompute(release.settings, this.#parts.driver, this.ahead(release));
  }

  /**
   * The release waits. `isServed`: it has just got a replica, so that others are first for another
   * one.
   */
  wait(release: WaitingRelease, isServed = false): void {
    const nowMs = this.#parts.clock.monotonicMs();
    const { releaseId, settings } = release;
    const known = this.#entries.get(releaseId);
    const isLate = known === undefined || isServed || nowMs - known.sinceMs > turnMsMax;
    this.#entries.set(releaseId, {
      ...release,
      wish: wishOf(settings),
      isProtected: isProtected(release),
      order: isLate ? ++this.#orders : known.order,
      sinceMs: isLate ? nowMs : known.sinceMs,
      untilMs: nowMs + stillWaitsMs,
    });
    if (isProtected(release)) this.#parts.onProtectedWait(this.#protectedWishes());
  }

  /** The release does not wait, or no longer. */
  leave(releaseId: ReleaseId): void {
    this.#entries.delete(releaseId);
  }

  /** Why a release of the app waits now, in sentences; undefined: none does. */
  reasonOf(appId: AppId): string | undefined {
    const entry = this.#sorted().find((one) => one.appId === appId);
    const choice = entry === undefined ? undefined : this.choose(entry);
    return choice === undefined || choice.ok ? undefined : choice.reason;
  }

  /** The apps that wait, in the order in which they get what is free. */
  apps(): AppId[] {
    return this.#sorted().map(({ appId }) => appId);
  }

  /** The wishes that come before that of the release. */
  ahead(release: WaitingRelease): PoolWish[] {
    const own = this.#entries.get(release.releaseId);
    const before = this.#sorted().filter(
      (entry) => entry !== own && isBefore(entry, own ?? release),
    );
    return before.map(({ wish }) => wish);
  }

  #protectedWishes(): ProtectedWish[] {
    return this.#sorted().flatMap(({ appId, wish, ...entry }) =>
      entry.isProtected ? [{ appId, wish }] : [],
    );
  }

  #sorted(): Entry[] {
    if (this.#entries.size === 0) return [];
    const nowMs = this.#parts.clock.monotonicMs();
    for (const [releaseId, { untilMs }] of this.#entries)
      if (untilMs < nowMs) this.#entries.delete(releaseId);
    return [...this.#entries.values()].toSorted(
      (one, other) =>
        Number(other.isProtected) - Number(one.isProtected) || one.order - other.order,
    );
  }
}

function isBefore(entry: Entry, release: WaitingRelease & { readonly order?: number }): boolean {
  if (entry.isProtected !== isProtected(release)) return entry.isProtected;
  return entry.order < (release.order ?? Number.POSITIVE_INFINITY);
}

function isProtected({ settings }: Pick<WaitingRelease, "settings">): boolean {
  return settings.computeTier === "protected";
}
