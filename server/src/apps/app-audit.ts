// Records actions on apps in the audit log, within the transaction of the change.
import { record, type AuditEntry } from "#audit/record.ts";
import type { AppKey } from "#lib/ids.ts";
import type { Tx } from "#store/database.ts";

type AppEntry = Pick<AuditEntry, "action" | "by" | "changes"> & AppKey & { readonly name: string };

/** Records an action on an app. */
export async function recordOfApp(tx: Tx, { appId, name, ...entry }: AppEntry): Promise<void> {
  await record(tx, { ...entry, resource: { type: "app", id: appId, name } });
}
