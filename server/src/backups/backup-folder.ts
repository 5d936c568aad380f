// Where backups are kept: a folder of this machine, or an address of an object store. A backup
// appears there under its name only when it is complete.
import type { Readable, Writable } from "node:stream";

/** Keeps backups by name. Errors that an operator can mend are `CannotStart`. */
export interface BackupFolder {
  /** For messages: where the backup of this name is. */
  addressOf(name: string): string;
  /** Throws when it is clear before the work that no backup can be kept under this name. */
  check(name: string): Promise<void>;
  /** Keeps what `fill` writes, once that is complete. Returns the number of bytes. */
  write(name: string, fill: (to: Writable) => Promise<void>): Promise<number>;
  read(name: string): Promise<Readable>;
  /**
   * The names of all files in the folder, backups or not, in no order. An unfinished backup has the
   * name `NAME.unfinished-…`, by which it can be removed.
   */
  list(): Promise<readonly string[]>;
  remove(name: string): Promise<void>;
}

/** A backup in the folder where it is, or will be. */
export type BackupAddress = { readonly folder: BackupFolder; readonly name: string };
