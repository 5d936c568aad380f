// The keys of gates that give each person the same share of something, however many projects they
// own.
import { sql } from "kysely";
import type { Clock } from "#lib/clock.ts";
import type { ProjectId } from "#lib/ids.ts";
import { LruMap } from "#lib/lru-map.ts";
import { readRow, type Db } from "#store/database.ts";
import { ownerKey } from "#store/project-owner.ts";

/** Whom a project counts to. */
export type OwnerKeyOf = (projectId: ProjectId) => Promise<string>;

/** An owner who has left counts a little longer. */
const freshMs = 60_000;
const projectsMax = 10_000;

type Known = { readonly key: Promise<string>; readonly untilMs: number };

/** Asks the database once in a while for each project, also for many that ask at once. */
export function ownerKeys({ db, clock }: { readonly db: Db; readonly clock: Clock }): OwnerKeyOf {
  const known = new LruMap<ProjectId, Known>(projectsMax);
  return (projectId) => {
    const found = known.get(projectId);
    if (found !== undefined && found.untilMs > clock.monotonicMs()) return found.key;
    const cached = { key: readKey(db, projectId), untilMs: clock.monotonicMs() + freshMs };
    known.set(projectId, cached);
    cached.key.catch(() => {
      if (known.get(projectId) === cached) known.delete(projectId);
    });
    return cached.key;
  };
}

async function readKey(db: Db, projectId: ProjectId): Promise<string> {
  const row = await readRow<{ readonly key: string }>(
    db,
  )`select ${ownerKey(sql`${projectId}::text`)} as key`;
  return row?.key ?? projectId;
}
