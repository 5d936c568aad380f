// Stores the id of the installation in its database. All that drivers start carries the id, so that
// a later platform on the same database recognizes it, whatever its data folder.
import { sql } from "kysely";
import { readRows, type Db } from "./database.ts";

/**
 * The id of the installation. If the database has none yet, it gets the id that living replicas
 * carry: the id of the data folder if the folder was used with the database, else the id of the
 * platform that ran last. A new database gets the id of the installation that the folder belonged
 * to before.
 */
export async function readInstallationId(
  db: Db,
  folder: { readonly instanceId: string; readonly installationId: string },
): Promise<string> {
  const { instanceId, installationId } = folder;
  await sql`
    insert into installation (id)
    select coalesce((select id from instances order by (id = ${instanceId}) desc, locked_at desc limit 1),
                    ${installationId})
    on conflict do nothing`.execute(db);
  const rows = await readRows<{ id: string }>(db)`select id from installation`;
  return rows[0]?.id ?? installationId;
}
