// Keeps backups in a folder of this machine. A backup that is being written has another name until
// it is complete and on the disk.
import { createReadStream, existsSync } from "node:fs";
import { open, readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Readable, Writable } from "node:stream";
import { errorMessage } from "#lib/error-message.ts";
import { CannotStart } from "#lib/cannot-start.ts";
import { errorCode } from "#lib/error-code.ts";
import { renameSafely } from "#lib/write-file.ts";
import type { BackupFolder } from "./backup-folder.ts";

/** A folder of this machine. */
export class LocalFolder implements BackupFolder {
  readonly #path: string;

  constructor(path: string) {
    this.#path = path;
  }

  addressOf(name: string): string {
    return join(this.#path, name);
  }

  async check(name: string): Promise<void> {
    await this.#requireFolder();
    if (!existsSync(this.addressOf(name))) return;
    throw new CannotStart(`${this.addressOf(name)} exists already. Give another name.`);
  }

  async write(name: string, fill: (to: Writable) => Promise<void>): Promise<number> {
    const path = this.addressOf(name);
    const unfinished = `${path}.unfinished-${process.pid}`;
    try {
      // The file is opened here, before `fill` reads anything. A stream that opened it by itself
      // would report a failure only later, and to nobody.
      await using file = await open(unfinished, "wx", 0o600);
      const to = file.createWriteStream({ flush: true });
      await fill(to);
      // Another backup may have taken the name meanwhile.
      await this.check(name);
      renameSafely(unfinished, path);
      return to.bytesWritten;
    } catch (error) {
      // A failed removal is ignored, since the error that led here says more.
      await rm(unfinished, { force: true }).catch(() => undefined);
      // An error without a code does not come from the disk, so it is passed on as it is.
      if (error instanceof CannotStart || errorCode(error) === "") throw error;
      const why = errorMessage(error);
      throw new CannotStart(`The backup could not be written: ${why}.`, { cause: error });
    }
  }

  async read(name: string): Promise<Readable> {
    const path = this.addressOf(name);
    const isFile = await stat(path).then(
      (found) => found.isFile(),
      () => false,
    );
    if (!isFile) throw new CannotStart(`There is no backup ${path}.`);
    return createReadStream(path);
  }

  async list(): Promise<readonly string[]> {
    await this.#requireFolder();
    return await readdir(this.#path);
  }

  async remove(name: string): Promise<void> {
    await rm(this.addressOf(name), { force: true });
  }

  async #requireFolder(): Promise<void> {
    const isFolder = await stat(this.#path).then(
      (found) => found.isDirectory(),
      () => false,
    );
    if (!isFolder) throw new CannotStart(`The folder ${this.#path} does not exist. Create it.`);
  }
}
