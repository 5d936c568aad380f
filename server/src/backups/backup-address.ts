// Reads the addresses of backups that people type: paths of this machine, and s3://bucket/name.
import { basename, dirname, resolve } from "node:path";
import { CannotStart } from "#lib/cannot-start.ts";
import type { BackupAddress, BackupFolder } from "./backup-folder.ts";
import { LocalFolder } from "./local-folder.ts";
import { S3Folder, type S3Settings } from "./s3-folder.ts";

/**
 * Reads the address of a backup. Throws `CannotStart` when the address names no file. `s3` is null
 * when no object store is configured.
 */
export function readBackupAddress(address: string, s3: S3Settings | null): BackupAddress {
  const name = address.slice(address.lastIndexOf("/") + 1);
  const isBucket = /^s3:\/\/[^/]*$/.test(address);
  if (name === "" || isBucket) {
    throw new CannotStart(
      `${address} names no file. Give a path such as backups/monday.age, or an address such as s3://bucket/monday.age.`,
    );
  }
  if (!address.startsWith("s3:")) {
    const path = resolve(address);
    return { folder: new LocalFolder(dirname(path)), name: basename(path) };
  }
  return { folder: readBackupFolder(address.slice(0, -name.length), s3), name };
}

/** Reads the address of a folder: a path, or s3://bucket/prefix. Throws `CannotStart`. */
export function readBackupFolder(address: string, s3: S3Settings | null): BackupFolder {
  if (!address.startsWith("s3:")) return new LocalFolder(resolve(address));
  // Names of buckets have 3 to 63 characters.
  const [, bucket, path = ""] =
    /^s3:\/\/([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:\/(.*))?$/.exec(address) ?? [];
  if (bucket === undefined) {
    throw new CannotStart(
      `${address} is no address of an object store. Give one such as s3://bucket/folder/monday.age.`,
    );
  }
  if (s3 === null) {
    throw new CannotStart(
      `For ${address}, set SLIPWAY_BACKUP_S3_ACCESS_KEY_ID and SLIPWAY_BACKUP_S3_SECRET_ACCESS_KEY, and for a server other than Amazon's SLIPWAY_BACKUP_S3_ENDPOINT.`,
    );
  }
  const prefix = path === "" || path.endsWith("/") ? path : `${path}/`;
  return new S3Folder(s3, { bucket, prefix });
}
