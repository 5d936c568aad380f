// The releases that wait for a pool with enough free capacity, in the order in which they get it:
// protected releases come first, then those that have waited longer. A release gets nothing that an
// earlier one still needs, so that none starves.
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
  /** The position in the line; lower numbers are first. */
  order: number;
  /** Since when the release has this position. */
  sinceMs: number;
  /** The entry is dropped then, unless the release has said again that it waits. */
  untilMs: number;
};

type LineParts = {
  readonly driver: Pick<Driver, "outage" | "pools">;
  readonly clock: Clock;
  /** Called when a protected release waits, with all waiting protected releases in their order. */
  readonly onProtectedWait: (waiting: readonly ProtectedWish[]) => void;
};

/**
 * How long a release keeps its position: a release that needs very much must not hold up others.
 */
const positionMsMax = 600_000;
/**
 * How long an entry lasts unless it is renewed: each turn of the app renews it, and a build that
 * waits for its trial renews it every few seconds.
 */
const stillWaitsMs = 15_000;

/** The line; one per scheduler. Bounded by the number of releases that should serve. */
export class CapacityLine {
  readonly #parts: LineParts;
  readonly #entries = new Map<ReleaseId, Entry>();
  /** The highest `order` so far. */
  #lastOrder = 0;

  constructor(parts: LineParts) {
    this.#parts = parts;
  }

  /** The compute type that a replica of the release can have now, or why it can have none. */
  choose(release: WaitingRelease): ComputeChoice {
    return chooseCompute(release.settings, this.#parts.driver, this.ahead(release));
  }

  /**
   * Makes the release wait in the line. `isServed`: it has just got a replica, so others come
   * before it now.
   */
  wait(release: WaitingRelease, isServed = false): void {
    const nowMs = this.#parts.clock.monotonicMs();
    const { releaseId, settings } = release;
    const entry = this.#entries.get(releaseId);
    const goesLast = entry === undefined || isServed || nowMs - entry.sinceMs > positionMsMax;
    if (goesLast) this.#lastOrder++;
    this.#entries.set(releaseId, {
      ...release,
      wish: wishOf(settings),
      isProtected: isProtected(release),
      order: goesLast ? this.#lastOrder : entry.order,
      sinceMs: goesLast ? nowMs : entry.sinceMs,
      untilMs: nowMs + stillWaitsMs,
    });
    if (isProtected(release)) this.#parts.onProtectedWait(this.#protectedWishes());
  }

  /** Removes the release from the line, if it is there. */
  leave(releaseId: ReleaseId): void {
    this.#entries.delete(releaseId);
  }

  /** Why a release of the app waits now, in sentences; undefined: none waits. */
  reasonOf(appId: AppId): string | undefined {
    const entry = this.#sorted().find((waiting) => waiting.appId === appId);
    if (entry === undefined) return undefined;
    const choice = this.choose(entry);
    return choice.ok ? undefined : choice.reason;
  }

  /** The apps that wait, in the order in which they get free capacity. */
  apps(): AppId[] {
    return this.#sorted().map(({ appId }) => appId);
  }

  /** The wishes that come before that of the release. */
  ahead(release: WaitingRelease): PoolWish[] {
    const ownEntry = this.#entries.get(release.releaseId);
    const earlier = this.#sorted().filter(
      (entry) => entry !== ownEntry && isBefore(entry, ownEntry ?? release),
    );
    return earlier.map(({ wish }) => wish);
  }

  #protectedWishes(): ProtectedWish[] {
    return this.#sorted()
      .filter((entry) => entry.isProtected)
      .map(({ appId, wish }) => ({ appId, wish }));
  }

  /** The entries in their order. Removes those that have lapsed. */
  #sorted(): Entry[] {
    if (this.#entries.size === 0) return [];
    const nowMs = this.#parts.clock.monotonicMs();
    for (const [releaseId, { untilMs }] of this.#entries)
      if (untilMs < nowMs) this.#entries.delete(releaseId);
    return [...this.#entries.values()].toSorted(
      (left, right) =>
        Number(right.isProtected) - Number(left.isProtected) || left.order - right.order,
    );
  }
}

/** A release that is not in the line has no `order`: it would come last. */
function isBefore(entry: Entry, release: WaitingRelease & { readonly order?: number }): boolean {
  if (entry.isProtected !== isProtected(release)) return entry.isProtected;
  return entry.order < (release.order ?? Number.POSITIVE_INFINITY);
}

function isProtected({ settings }: Pick<WaitingRelease, "settings">): boolean {
  return settings.computeTier === "protected";
}
