// Packs and unpacks the archive in which builders get an app's files: the platform packs the folder
// that it has fetched, and builders on this machine unpack it into a folder of their own. Both run
// the program tar with options that GNU's and macOS's share, and leave no tar process behind.
import { mkdir } from "node:fs/promises";
import { Readable } from "node:stream";
import { finished } from "node:stream/promises";
import { buildAgain } from "@slipway/contract/advice.ts";
import { errorMessage } from "#lib/error-message.ts";
import { isWritten, startTar, type Tar } from "#lib/tar.ts";
import { BuildFailed, type BuildSource } from "./builder.ts";

/** Returns the files in this folder as a source. Nobody may change them while they are packed. */
export function folderSource(folder: string): BuildSource {
  return { archive: (signal) => Readable.from(packed(folder, signal), { objectMode: false }) };
}

async function* packed(folder: string, signal: AbortSignal): AsyncGenerator<Buffer> {
  await using tar = await startTar(["-c", "--numeric-owner", "."], folder, signal);
  yield* tar.output;
  await tar.end;
}

/**
 * Makes `folder` and unpacks the files into it. Rejects with `BuildFailed` when they cannot be
 * written, with the archive's error, or with the reason of `signal`. Nothing is written afterwards.
 */
export async function unpackSource(
  source: BuildSource,
  folder: string,
  signal: AbortSignal,
): Promise<void> {
  await mkdir(folder);
  // Without -P, tar refuses names that lead out of the folder, even through a link in the archive.
  // The options keep the modes of the files, but neither their owners nor their times.
  await using tar = await startTar(["-x", "--no-same-owner", "-m", "-p"], folder, signal);
  const archive = source.archive(signal);
  try {
    let written = Promise.resolve(true);
    for await (const chunk of archive) {
      // Nothing is written once tar has ended. If tar has succeeded before the end of the archive,
      // reading goes on, since the archive may still end with an error.
      if (!(await written)) await requireSuccess(tar, signal);
      // Not awaited, so that the next chunk is read meanwhile: large files take a quarter less
      // time.
      written = isWritten(tar.input, chunk as Buffer);
    }
  } finally {
    await finished(archive.destroy()).catch(() => undefined);
  }
  tar.input.end();
  await requireSuccess(tar, signal);
}

async function requireSuccess(tar: Tar, signal: AbortSignal): Promise<void> {
  await tar.end.catch((error: unknown) => {
    signal.throwIfAborted();
    const reason = errorMessage(error);
    throw new BuildFailed(
      `The app's files could not be unpacked (${reason}). The operator has to check the disk; then ${buildAgain}.`,
      { cause: error },
    );
  });
}
