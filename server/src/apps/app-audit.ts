// The audit rows of apps, within the transaction of the change.
import { record, type AuditEntry } from "#audit/record.ts";
import type { AppId, ProjectId } from "#lib/ids.ts";
import type { Tx } from "#store/database.ts";

/** Records an action on an app. */
export async function recordOfApp(
  tx: Tx,
  {
    appId,
    name,
    ...entry
  }: Pick<AuditEntry, "action" | "by" | "changes"> & {
    readonly projectId: ProjectId;
    readonly appId: AppId;
    readonly name: string;
  },
): Promise<void> {
  await record(tx, { ...entry, resource: { type: "app", id: appId, name } });
}
