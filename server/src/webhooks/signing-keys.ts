// Caches the signing keys and the schedule of projects, which each attempt needs. The transaction
// of a change sends a NOTIFY, which removes the cached entry.
import type { Clock } from "#lib/clock.ts";
import type { ProjectId } from "#lib/ids.ts";
import { LruMap } from "#lib/lru-map.ts";
import type { Sealer } from "#lib/seal.ts";
import { secretPrefix } from "#lib/webhook-signature.ts";
import type { Db } from "#store/database.ts";
import type { Notifications } from "#store/notify.ts";
import type { ScheduleName } from "./schedule.ts";
import { validSecrets } from "./project-secrets.ts";
import { readSchedule } from "./secret-store.ts";

/** A decoded secret. `expiresMs`: in milliseconds since 1970; infinite: it does not expire. */
type Key = { readonly bytes: Buffer; readonly expiresMs: number };
/** The cached keys and schedule of a project, valid until `untilMs` by `Clock.monotonicMs`. */
type CacheEntry = {
  readonly keys: readonly Key[];
  readonly schedule: ScheduleName;
  readonly untilMs: number;
};

export type ProjectSigning = { readonly keys: readonly Buffer[]; readonly schedule: ScheduleName };

const cachedProjectsMax = 10_000;
/** How long an entry is valid: a change whose notification is lost takes effect after this time. */
const cacheMs = 60_000;

/** The keys and the schedule of each project. `close()` stops listening. */
export class WebhookSigningKeys {
  readonly #parts: { readonly db: Db; readonly sealer: Sealer; readonly clock: Clock };
  readonly #cache = new LruMap<ProjectId, Promise<CacheEntry>>(cachedProjectsMax);
  readonly #unlisten: () => void;

  constructor(parts: {
    readonly db: Db;
    readonly sealer: Sealer;
    readonly clock: Clock;
    readonly notifications: Pick<Notifications, "listen">;
  }) {
    this.#parts = parts;
    this.#unlisten = parts.notifications.listen("webhook_secrets", (projectId) => {
      // Null: notifications may have been lost, so any project may have changed.
      if (projectId === null) this.#cache.clear();
      else this.#cache.delete(projectId as ProjectId);
    });
  }

  /**
   * The keys and the schedule of a project. Rejects when the database does not answer and no
   * current entry is cached.
   */
  async of(projectId: ProjectId): Promise<ProjectSigning> {
    const { clock } = this.#parts;
    let entry = await (this.#cache.get(projectId) ?? this.#load(projectId));
    if (entry.untilMs < clock.monotonicMs()) entry = await this.#load(projectId);
    const nowMs = clock.now();
    const valid = entry.keys.filter((key) => key.expiresMs > nowMs);
    return { keys: valid.map((key) => key.bytes), schedule: entry.schedule };
  }

  close(): void {
    this.#unlisten();
  }

  /**
   * Reads an entry, and caches the promise of the entry at once. A change during the read removes
   * the promise, so that the next caller reads again.
   */
  #load(projectId: ProjectId): Promise<CacheEntry> {
    const loading = this.#read(projectId);
    this.#cache.set(projectId, loading);
    loading.catch(() => {
      if (this.#cache.get(projectId) === loading) this.#cache.delete(projectId);
    });
    return loading;
  }

  async #read(projectId: ProjectId): Promise<CacheEntry> {
    const { db, sealer, clock } = this.#parts;
    const [secrets, schedule] = await Promise.all([
      validSecrets({ db, sealer }, projectId),
      readSchedule(db, projectId),
    ]);
    const keys = secrets.map(({ secret, expires_at: expiresAt }) => {
      const bytes = Buffer.from(secret.reveal().slice(secretPrefix.length), "base64");
      return { bytes, expiresMs: expiresAt?.getTime() ?? Number.POSITIVE_INFINITY };
    });
    return { keys, schedule, untilMs: clock.monotonicMs() + cacheMs };
  }
}
