// Connections of a test's own to a database, besides those of the platform under test.
import { systemClock } from "#lib/clock.ts";
import { silentLog } from "#lib/log.ts";
import type { Secret } from "#lib/secret.ts";
import { DatabaseCounts } from "#store/database-counts.ts";
import { openDatabase, type DatabaseOptions, type Db } from "#store/database.ts";

/** At most this many connections. The caller closes them with `destroy()`. */
export async function connect(
  url: Secret,
  connections: number,
  given: Partial<DatabaseOptions> = {},
): Promise<Db> {
  return await openDatabase({
    url,
    connections,
    counts: new DatabaseCounts(),
    log: silentLog,
    clock: systemClock,
    ...given,
  });
}
