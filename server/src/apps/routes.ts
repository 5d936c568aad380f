// The routing table: all apps with their live release, in memory, so that the proxy finds an app
// without the database. Loaded at the start, and updated whenever an app or a build changes.
import { isDeepStrictEqual } from "node:util";
import type { AppSettings } from "@slipway/contract/app-settings.ts";
import type { Clock } from "#lib/clock.ts";
import { Fault } from "#lib/fault.ts";
import type { AppId, BuildId, ProjectId, ReleaseId } from "#lib/ids.ts";
import { retry, untilStop, type RetryPolicy } from "#lib/retry.ts";
import type { Foundation } from "#store/foundation.ts";
import type { Notifications } from "#store/notify.ts";
import { readRoutes, type RouteRow, type RouteSelection } from "./route-store.ts";
import { liveSettings } from "./settings.ts";
import { corsBeforeRelease, readReleaseSettings, type CorsSettings } from "./stored-settings.ts";

/** The proxy's data about an app. Frozen. */
export type AppRoute = {
  readonly appId: AppId;
  readonly projectId: ProjectId;
  readonly appName: string;
  /**
   * Whether calls need no token, as the settings of the live release say; without a release that
   * can be read, as the request says, or else the settings of the latest build.
   */
  readonly disableAuth: boolean;
  /**
   * The pages of other origins that may read why the app has no release. Absent: the app has a
   * release, or no such page may.
   */
  readonly cors?: CorsSettings;
  /** How often a restart of the app's replicas was requested. */
  readonly restarts: number;
  /** A person has stopped the app; absent: nobody has. */
  readonly isStopped?: boolean;
  /**
   * The release that takes calls, with its settings in effect; null: no build has succeeded yet.
   */
  readonly live: {
    readonly releaseId: ReleaseId;
    readonly buildId: BuildId;
    readonly settings: AppSettings;
  } | null;
  /**
   * The roll-out under way: its release is to get `share` percent of the calls, and `stepEndsAt` is
   * null while it is paused. Null: there is none, or the settings of its release cannot be read.
   */
  readonly rollOut: RouteRollOut | null;
  /** The release that the latest roll-out took back because it was worse; null: none. */
  readonly refusedReleaseId: ReleaseId | null;
  /** Why the live release cannot take calls: its stored settings cannot be read. */
  readonly unreadable?: string;
  readonly latestBuild: {
    readonly status: NonNullable<RouteRow["status"]>;
    /** Why the build has its status, as a sentence; null: there is nothing to say. */
    readonly reason: string | null;
  } | null;
};

/** A roll-out, as calls and the scheduler see it. */
export type RouteRollOut = {
  readonly release: NonNullable<AppRoute["live"]>;
  /** The share of the calls that the release is to get, in percent. */
  readonly share: number;
  /** When the current step ends, in milliseconds since 1970; null: the roll-out is paused. */
  readonly stepEndsAt: number | null;
};

export type RoutesOptions = Pick<Foundation, "db" | "log"> & {
  readonly notifications: Pick<Notifications, "listen">;
  readonly clock: Clock;
};

type Listener = (appId: AppId) => void;

/** A read is tried until it succeeds or the platform stops; the pauses grow to about 5 seconds. */
const readRetries: RetryPolicy = {
  firstMs: 100,
  factor: 2,
  msMax: 5_000,
  jitter: 0.2,
  triesMax: untilStop,
};

/** The routing table. Call `start()` once before using it; `stop()` ends its subscription. */
export class Routes {
  readonly #options: RoutesOptions;
  readonly #clock: Clock;
  readonly #byKey = new Map<string, AppRoute>();
  readonly #byAppId = new Map<AppId, AppRoute>();
  readonly #listeners = new Set<Listener>();
  readonly #unlisten: (() => void)[] = [];
  /** What notifications and failed reads have named, and no read has taken yet. */
  readonly #pending = { everything: false, appIds: new Set<AppId>(), buildIds: new Set<BuildId>() };
  /**
   * By app, the number of the read that produced its entry: an older read that ends later must not
   * overwrite the entry.
   */
  readonly #readNumbers = new Map<AppId, number>();
  /**
   * Apps that no longer exist. Their entries in `#readNumbers` stay while a read is under way, so
   * that an older read does not bring them back.
   */
  readonly #removed = new Set<AppId>();
  /** The number of the newest read. */
  #newestRead = 0;
  #readsUnderWay = 0;
  /** The reads of what is pending, in the background; undefined: none is under way. */
  #working: Promise<void> | undefined;
  readonly #stopping = new AbortController();

  constructor(options: RoutesOptions) {
    this.#options = options;
    this.#clock = options.clock;
  }

  /** Finds an app by name, in one map access; undefined when it does not exist. */
  find(projectId: string, appName: string): AppRoute | undefined {
    return this.#byKey.get(`${projectId}/${appName}`);
  }

  byAppId(appId: AppId): AppRoute | undefined {
    return this.#byAppId.get(appId);
  }

  /** All current routes, unordered. */
  all(): AppRoute[] {
    return [...this.#byAppId.values()];
  }

  /**
   * Calls `listener` after each change of an app's route, synchronously. Returns a function that
   * removes it.
   */
  onChange(listener: Listener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * Subscribes to changes, and resolves when all apps are loaded. Rejects when the database does
   * not answer.
   */
  async start(): Promise<void> {
    this.#unlisten.push(
      this.#options.notifications.listen("apps", (payload) =>
        this.#readLater(payload, this.#pending.appIds),
      ),
      this.#options.notifications.listen("builds", (payload) =>
        this.#readLater(payload, this.#pending.buildIds),
      ),
    );
    await this.#read({ everything: true, appIds: [], buildIds: [] });
  }

  async stop(): Promise<void> {
    for (const unlisten of this.#unlisten.splice(0)) unlisten();
    this.#stopping.abort(new Error("routes are stopping"));
    await this.#working;
  }

  /**
   * Resolves when `find` returns the committed state of the app. If the database fails, resolves at
   * once, and tries again in the background.
   */
  async refresh(appId: AppId): Promise<void> {
    try {
      await this.#read({ everything: false, appIds: [appId], buildIds: [] });
    } catch (error) {
      this.#options.log.warn({ err: error, appId }, "a route could not be read; trying again");
      this.#readLater(appId, this.#pending.appIds);
    }
  }

  #readLater(payload: string | null, ids: Set<AppId> | Set<BuildId>): void {
    // Without a payload, notifications may have been lost.
    if (payload === null) this.#pending.everything = true;
    // The payload is an id of the type that the set has.
    else ids.add(payload as AppId & BuildId);
    this.#working ??= this.#readAllPending();
  }

  async #readAllPending(): Promise<void> {
    const { signal } = this.#stopping;
    const onFailure = (error: unknown, attempt: number): void =>
      this.#options.log.warn({ err: error, attempt }, "routes could not be read; trying again");
    const options = { ...readRetries, clock: this.#clock, signal, onFailure };
    while (this.#isAnyPending && !signal.aborted) await retry(options, () => this.#readPending());
    // No await stands between the last check and this line, so nothing becomes pending in between.
    this.#working = undefined;
  }

  async #readPending(): Promise<void> {
    const selection = this.#takePending();
    try {
      await this.#read(selection);
    } catch (error) {
      this.#putBack(selection);
      throw error;
    }
  }

  get #isAnyPending(): boolean {
    const { everything, appIds, buildIds } = this.#pending;
    return everything || appIds.size > 0 || buildIds.size > 0;
  }

  #takePending(): RouteSelection {
    const { everything, appIds, buildIds } = this.#pending;
    const selection = { everything, appIds: [...appIds], buildIds: [...buildIds] };
    this.#pending.everything = false;
    appIds.clear();
    buildIds.clear();
    return selection;
  }

  #putBack(selection: RouteSelection): void {
    this.#pending.everything ||= selection.everything;
    for (const appId of selection.appIds) this.#pending.appIds.add(appId);
    for (const buildId of selection.buildIds) this.#pending.buildIds.add(buildId);
  }

  async #read(selection: RouteSelection): Promise<void> {
    const readNumber = ++this.#newestRead;
    this.#readsUnderWay++;
    try {
      const routes = (await readRoutes(this.#options.db, selection)).map(toRoute);
      const existing = new Set(routes.map((route) => route.appId));
      // An app is expected if the table has it, or if it was asked for. An expected app that was
      // not found is gone.
      const expected = selection.everything ? [...this.#byAppId.keys()] : selection.appIds;
      for (const appId of expected) {
        if (!existing.has(appId)) this.#put(appId, undefined, readNumber);
      }
      for (const route of routes) this.#put(route.appId, route, readNumber);
    } finally {
      this.#readsUnderWay--;
      if (this.#readsUnderWay === 0) this.#forgetRemoved();
    }
  }

  #forgetRemoved(): void {
    for (const appId of this.#removed)
      if (!this.#byAppId.has(appId)) this.#readNumbers.delete(appId);
    this.#removed.clear();
  }

  /** Puts what a read has found into the table; `route` undefined: the app is gone. */
  #put(appId: AppId, route: AppRoute | undefined, readNumber: number): void {
    if ((this.#readNumbers.get(appId) ?? 0) > readNumber) return;
    const before = this.#byAppId.get(appId);
    this.#readNumbers.set(appId, readNumber);
    if (route === undefined) {
      this.#removed.add(appId);
      if (before === undefined) return;
      this.#byAppId.delete(appId);
      // Another app may have taken the name by now.
      if (this.#byKey.get(keyOf(before)) === before) this.#byKey.delete(keyOf(before));
    } else {
      if (isDeepStrictEqual(before, route)) return;
      if (route.unreadable !== undefined)
        this.#options.log.error({ appId, reason: route.unreadable }, "an app takes no calls");
      this.#byAppId.set(appId, route);
      this.#byKey.set(keyOf(route), route);
    }
    for (const listener of this.#listeners) listener(appId);
  }
}

function keyOf(route: AppRoute): string {
  return `${route.projectId}/${route.appName}`;
}

function toRoute(row: RouteRow): AppRoute {
  const live = releaseOf(row);
  const hasRelease = live !== null && !(live instanceof Fault);
  const cors = hasRelease ? undefined : corsBeforeRelease(row.request, row.latest_settings);
  // Without a release that can be read, the request's setting counts, else the latest build's.
  const { disableAuth: requested = null } = row.request as { readonly disableAuth?: unknown };
  const latestBuilt = row.latest_settings as { readonly disableAuth?: unknown } | null;
  return Object.freeze({
    appId: row.id,
    projectId: row.project_id,
    appName: row.name,
    restarts: row.restarts,
    ...(row.stopped_at === null ? {} : { isStopped: true }),
    ...(live instanceof Fault ? { live: null, unreadable: live.message } : { live }),
    ...(cors === undefined ? {} : { cors: Object.freeze(cors) }),
    disableAuth: hasRelease
      ? live.settings.disableAuth
      : (requested ?? latestBuilt?.disableAuth) === true,
    rollOut: rollOutOf(row),
    refusedReleaseId: row.refused_id,
    latestBuild:
      row.status === null ? null : Object.freeze({ status: row.status, reason: row.reason }),
  });
}

/**
 * The roll-out under way. Null: there is none, or its release gets no calls, since its settings
 * cannot be read.
 */
function rollOutOf(row: RouteRow): RouteRollOut | null {
  // `releaseOf` reads the columns of a live release, so the next one's get their names here.
  const { next_settings: settings, next_origins: origins, next_base_settings: base_settings } = row;
  const { request, next_id: release_id, next_build_id: build_id, share } = row;
  const release = releaseOf({ request, release_id, build_id, settings, origins, base_settings });
  if (release === null || release instanceof Fault || share === null) return null;
  return Object.freeze({ release, share, stepEndsAt: row.step_ends_at?.getTime() ?? null });
}

/**
 * The release that the columns of a row describe; null when they describe none. When its settings
 * cannot be read, the fault is returned, not thrown: one app must not prevent others from loading.
 */
function releaseOf(
  row: Pick<
    RouteRow,
    "request" | "release_id" | "build_id" | "settings" | "origins" | "base_settings"
  >,
): AppRoute["live"] | Fault {
  const { release_id: releaseId, build_id: buildId } = row;
  if (releaseId === null || buildId === null) return null;
  const release = readReleaseSettings(row);
  if (release instanceof Fault) return release;
  const { settings } = liveSettings(release, row.request as Readonly<Record<string, unknown>>);
  return Object.freeze({ releaseId, buildId, settings });
}
