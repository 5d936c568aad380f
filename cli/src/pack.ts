// Packs chosen files as a zip in a temporary file, one after the other, so that memory stays
// bounded.
import { once } from "node:events";
import { createWriteStream, mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { ZipFile } from "yazl";
import type { ChosenFile } from "./chosen-files.ts";
import { errorMessage } from "./error-message.ts";
import { Refused } from "./refused.ts";

/** A zip on this machine's disk. */
export type PackedFiles = {
  readonly path: string;
  readonly bytes: number;
  /** Removes it; once is enough. */
  remove(): void;
};

/** The same for the same files. */
const madeAt = new Date(Date.UTC(2000, 0, 1));

/**
 * Throws `Refused` when a file cannot be read, or changes meanwhile. `onProgress` gets the bytes of
 * the zip so far.
 */
export async function pack(
  files: readonly ChosenFile[],
  onProgress: (bytes: number) => void,
): Promise<PackedFiles> {
  const folder = mkdtempSync(join(tmpdir(), "slipway-deploy-"));
  const remove = (): void => rmSync(folder, { recursive: true, force: true });
  process.once("exit", remove);
  const packed = {
    path: join(folder, "app.zip"),
    remove: () => (process.off("exit", remove), remove()),
  };
  try {
    await write(files, packed.path, onProgress);
    return { ...packed, bytes: statSync(packed.path).size };
  } catch (error) {
    packed.remove();
    if (error instanceof Refused) throw error;
    if (error instanceof Error && "code" in error && error.code === "EACCES")
      throw noPermission(files, error);
    const why = errorMessage(error);
    throw new Refused(
      `The files cannot be packed: ${why}. Try again when nothing writes to the folder.`,
      {
        cause: error,
      },
    );
  }
}

function noPermission(files: readonly ChosenFile[], error: Error): Refused {
  const file = files.find(({ source }) => "path" in error && source === error.path);
  const shown = file?.path ?? error.message;
  return new Refused(
    `${shown} cannot be read: you have no permission. Allow it, or leave it out: exclude = [${JSON.stringify(shown)}]`,
    { cause: error },
  );
}

async function write(
  files: readonly ChosenFile[],
  path: string,
  onProgress: (bytes: number) => void,
): Promise<void> {
  const zip = new ZipFile();
  const failed = once(zip, "error").then(([error]: unknown[]) => {
    throw error;
  });
  const output = createWriteStream(path, { mode: 0o600, flags: "wx" });
  const counting = async function* (
    parts: AsyncIterable<Buffer | string>,
  ): AsyncGenerator<Buffer | string> {
    let bytes = 0;
    for await (const part of parts) {
      bytes += part.length;
      onProgress(bytes);
      yield part;
    }
  };
  const written = pipeline(zip.outputStream, counting, output);
  for (const { source, path: name, isExecutable } of files) {
    zip.addFile(source, name, { mtime: madeAt, mode: isExecutable ? 0o100755 : 0o100644 });
  }
  zip.end();
  try {
    await Promise.race([written, failed]);
  } finally {
    output.destroy();
    failed.catch(() => undefined);
    written.catch(() => undefined);
  }
}
