// The proven domains, in memory: the proxy finds an app by its domain without the database, and
// certificates are requested for these names only. They are loaded at the start, and again
// whenever a domain is proven or lost.
import type { AppOfHost } from "#lib/app-hosts.ts";
import { Loop } from "#lib/loop.ts";
import type { Foundation } from "#store/foundation.ts";
import type { Notifications } from "#store/notify.ts";
import { readProvenNames } from "./domain-store.ts";

export type DomainNamesOptions = Pick<Foundation, "db" | "clock" | "log"> & {
  readonly notifications: Pick<Notifications, "listen">;
  /** The host of the platform's public URL, which leads to no app; null: no such URL is set. */
  readonly ownHost: string | null;
};

/** A failed read is retried after this time. A turn with nothing to read does nothing. */
const retryMs = 1_000;
/** Matches a host that has a port, capital letters or a final dot, which most hosts do not have. */
const unusualForm = /[A-Z:]|\.$/;

/** The proven names; call `start()` once before use. `stop()` stops listening. */
export class DomainNames {
  readonly #options: DomainNamesOptions;
  #apps: ReadonlyMap<string, AppOfHost> = new Map();
  readonly #listeners = new Set<() => void>();
  readonly #loop: Loop;
  #isStale = true;
  #unlisten: () => void = () => undefined;

  constructor(options: DomainNamesOptions) {
    const { clock, log } = options;
    this.#options = options;
    this.#loop = new Loop({
      name: "proven domains",
      intervalMs: retryMs,
      turn: () => this.#readIfStale(),
      clock,
      log,
    });
  }

  /** The app whose domain the field `Host` names; null: there is none. Costs one map lookup. */
  appOf(host: string | undefined): AppOfHost | null {
    if (host === undefined || this.#apps.size === 0) return null;
    const name = unusualForm.test(host) ? host.toLowerCase().replace(/\.?(?::\d*)?$/, "") : host;
    return this.#apps.get(name) ?? null;
  }

  /** All proven names, the oldest first. */
  names(): readonly string[] {
    return [...this.#apps.keys()];
  }

  /** Calls `listener` after each change, until the returned function is called. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Resolves when all names are loaded. Rejects when the database does not answer. */
  async start(): Promise<void> {
    this.#unlisten = this.#options.notifications.listen("domains", () => {
      this.#isStale = true;
      this.#loop.nudge();
    });
    await this.#readIfStale();
    this.#loop.start();
  }

  async stop(): Promise<void> {
    this.#unlisten();
    await this.#loop.stop();
  }

  /**
   * Reads the names if they may have changed. Turns do not overlap, so no older read overwrites a
   * newer result.
   */
  async #readIfStale(): Promise<void> {
    if (!this.#isStale) return;
    this.#isStale = false;
    try {
      const names = await readProvenNames(this.#options.db);
      this.#apps = new Map(
        names
          // An app may have proven this name before it became the platform's own.
          .filter(({ name }) => name !== this.#options.ownHost)
          .map(({ name, projectId, appName }) => [name, { projectId, appName }]),
      );
    } catch (error) {
      this.#isStale = true;
      throw error;
    }
    for (const listener of this.#listeners) listener();
  }
}
