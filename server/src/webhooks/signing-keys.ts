// Caches what each attempt needs of a project: the signing keys and the schedule. The transaction
// of a change sends a NOTIFY.
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

type Key = { readonly bytes: Buffer; readonly expiresMs: number };
type Known = {
  readonly keys: readonly Key[];
  readonly schedule: ScheduleName;
  readonly untilMs: number;
};

export type ProjectSigning = { readonly keys: readonly Buffer[]; readonly schedule: ScheduleName };

const projectsKnownMax = 10_000;
/** The maximum delay after a lost notification. */
const knownMs = 60_000;

/** The keys and the schedule of each project. `close()` stops listening. */
export class WebhookSigningKeys {
  readonly #parts: { readonly db: Db; readonly sealer: Sealer; readonly clock: Clock };
  readonly #known = new LruMap<ProjectId, Promise<Known>>(projectsKnownMax);
  readonly #unlisten: () => void;

  constructor(parts: {
    readonly db: Db;
    readonly sealer: Sealer;
    readonly clock: Clock;
    readonly notifications: Pick<Notifications, "listen">;
  }) {
    this.#parts = parts;
    this.#unlisten = parts.notifications.listen("webhook_secrets", (projectId) => {
      if (projectId === null) this.#known.clear();
      else this.#known.delete(projectId as ProjectId);
    });
  }

  /** Rejects when the database does not answer and nothing is cached. */
  async of(projectId: ProjectId): Promise<ProjectSigning> {
    const { clock } = this.#parts;
    let known = await (this.#known.get(projectId) ?? this.#load(projectId));
    if (known.untilMs < clock.monotonicMs()) known = await this.#load(projectId);
    const nowMs = clock.now();
    const valid = known.keys.filter((key) => key.expiresMs > nowMs);
    return { keys: valid.map((key) => key.bytes), schedule: known.schedule };
  }

  close(): void {
    this.#unlisten();
  }

  /** A change during the read removes the promise, so that the next caller reads again. */
  #load(projectId: ProjectId): Promise<Known> {
    const loading = this.#read(projectId);
    this.#known.set(projectId, loading);
    loading.catch(() => {
      if (this.#known.get(projectId) === loading) this.#known.delete(projectId);
    });
    return loading;
  }

  async #read(projectId: ProjectId): Promise<Known> {
    const { db, sealer, clock } = this.#parts;
    const [secrets, schedule] = await Promise.all([
      validSecrets({ db, sealer }, projectId),
      readSchedule(db, projectId),
    ]);
    const keys = secrets.map(({ secret, expires_at: expiresAt }) => {
      const bytes = Buffer.from(secret.reveal().slice(secretPrefix.length), "base64");
      return { bytes, expiresMs: expiresAt?.getTime() ?? Number.POSITIVE_INFINITY };
    });
    return { keys, schedule, untilMs: clock.monotonicMs() + knownMs };
  }
}
