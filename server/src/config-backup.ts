// Reads the settings of backups: for whom they are encrypted, where they go, and the object
// store they may be in.
import { Secret } from "#lib/secret.ts";
import type { PlatformSettingName, SettingReader } from "./config-table.ts";

/**
 * The settings of backups. `to` is null when no backups are scheduled, and `s3` when there are no
 * credentials for an object store.
 */
export function readBackup({
  text,
  refuse,
  url,
}: SettingReader & { readonly url: (name: PlatformSettingName) => string | null }) {
  const accessKeyId = text("SLIPWAY_BACKUP_S3_ACCESS_KEY_ID");
  const secretAccessKey = text("SLIPWAY_BACKUP_S3_SECRET_ACCESS_KEY");
  if ((accessKeyId === null) !== (secretAccessKey === null)) {
    refuse(
      "SLIPWAY_BACKUP_S3_ACCESS_KEY_ID and SLIPWAY_BACKUP_S3_SECRET_ACCESS_KEY need each other: set both, or neither.",
    );
  }
  const publicKeys = (text("SLIPWAY_BACKUP_PUBLIC_KEYS") ?? "")
    .split(",")
    .map((key) => key.trim())
    .filter((key) => key !== "");
  const to = text("SLIPWAY_BACKUP_TO");
  if (to !== null && publicKeys.length === 0) {
    refuse(
      "SLIPWAY_BACKUP_TO needs SLIPWAY_BACKUP_PUBLIC_KEYS, for which backups are encrypted. slipway backup --new-key backup.key makes a key.",
    );
  }
  if (accessKeyId === null || secretAccessKey === null) return { publicKeys, to, s3: null };
  const s3 = {
    // The table has defaults for these two settings, so the empty texts are never used.
    endpoint: url("SLIPWAY_BACKUP_S3_ENDPOINT") ?? "",
    region: text("SLIPWAY_BACKUP_S3_REGION") ?? "",
    accessKeyId: new Secret(accessKeyId),
    secretAccessKey: new Secret(secretAccessKey),
  };
  return { publicKeys, to, s3 };
}
