// The identity of the installation, which is in its database: whatever a driver starts carries it,
// so that any later platform on the database knows it again, with whatever data folder.
import { sql } from "kysely";
import { readRows, type Db } from "./database.ts";

/**
 * The id of the installation. The first time, it is the one that living replicas carry: that of the
 * data folder, if it has been used with the database, else that of the platform that ran last. A
 * new database takes the one that the folder worked for before.
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
