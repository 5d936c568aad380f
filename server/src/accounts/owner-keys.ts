// Keys for gates that give each person the same share of something, however many projects they own.
import type { Clock } from "#lib/clock.ts";
import type { ProjectId } from "#lib/ids.ts";
import { LruMap } from "#lib/lru-map.ts";
import type { Db } from "#store/database.ts";
import { readOwnerKey } from "#store/project-owner-store.ts";

/** Returns the key that all projects of one owner share. */
export type OwnerKeyOf = (projectId: ProjectId) => Promise<string>;

/** How long a key is cached. A project whose owner has changed keeps the old key for as long. */
const freshMs = 60_000;
/** The maximum number of projects whose keys are cached. */
const projectsMax = 10_000;

type CachedKey = { readonly key: Promise<string>; readonly untilMs: number };

/** Caches keys: simultaneous calls for one project read the database only once. */
export function ownerKeys({ db, clock }: { readonly db: Db; readonly clock: Clock }): OwnerKeyOf {
  const keys = new LruMap<ProjectId, CachedKey>(projectsMax);
  return (projectId) => {
    const cached = keys.get(projectId);
    if (cached !== undefined && cached.untilMs > clock.monotonicMs()) return cached.key;
    const fresh = { key: readOwnerKey(db, projectId), untilMs: clock.monotonicMs() + freshMs };
    keys.set(projectId, fresh);
    // A failed read is not cached.
    fresh.key.catch(() => {
      if (keys.get(projectId) === fresh) keys.delete(projectId);
    });
    return fresh.key;
  };
}
