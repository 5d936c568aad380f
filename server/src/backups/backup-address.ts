// Reads the addresses of backups that people type.
import { basename, dirname, resolve } from "node:path";
import { CannotStart } from "#lib/cannot-start.ts";
import type { BackupAddress } from "./backup-folder.ts";
import { LocalFolder } from "./local-folder.ts";

/** Reads a path. Throws `CannotStart` for what names no file. */
export function readBackupAddress(address: string): BackupAddress {
  const path = resolve(address);
  if (address === "" || address.endsWith("/"))
    throw new CannotStart(`${address} names no file. Give the path of one, such as backup.age.`);
  return { folder: new LocalFolder(dirname(path)), name: basename(path) };
}
