// Packs and unpacks the archive in which builders get an app's files: the platform packs the folder
// that it has fetched, and builders on this machine unpack it into a folder of their own. Both run
// the program tar with options that GNU's and macOS's share, and leave no tar process behind.
import { spawn } from "node:child_process";
import { addAbortListener, once } from "node:events";
import { mkdir } from "node:fs/promises";
import { Readable, type Writable } from "node:stream";
import { finished } from "node:stream/promises";
import { buildAgain } from "@slipway/contract/advice.ts";
import { oneLine } from "#lib/one-line.ts";
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
  await using tar = await startTar(["-x", "--no-same-owner", "-m", "-p"], folder, signal);
  const archive = source.archive(signal);
  try {
    let written = Promise.resolve(true);
    for await (const chunk of archive) {
      // If tar has succeeded before the end of the archive, the archive may still end with an
      // error.
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

/** Resolves with false when the program has ended; its end says why. */
async function isWritten(input: Writable, chunk: Buffer): Promise<boolean> {
  return await new Promise((resolve) => input.write(chunk, (error) => resolve(!error)));
}

async function requireSuccess(tar: Tar, signal: AbortSignal): Promise<void> {
  await tar.end.catch((error: unknown) => {
    signal.throwIfAborted();
    const reason = error instanceof Error ? error.message : String(error);
    throw new BuildFailed(
      `The app's files could not be unpacked (${reason}). The operator has to check the disk; then ${buildAgain}.`,
      { cause: error },
    );
  });
}

type Tar = AsyncDisposable & {
  readonly input: Writable;
  readonly output: Readable;
  /** Resolves when tar has succeeded; rejects with its message, or with the signal's reason. */
  readonly end: Promise<void>;
};

/** Blocks of 512 bytes that tar moves at once: with so many, large files take a third less time. */
const blocks = "128";
/** Enough for the first message of tar. */
const messageLengthMax = 300;

/** Starts tar, which runs until its end, its disposal, or the abort of `signal`. */
async function startTar(
  options: readonly string[],
  folder: string,
  signal: AbortSignal,
): Promise<Tar> {
  signal.throwIfAborted();
  // Turns off the operator's own options, the operator's language, and macOS's additional files.
  const environment = ["-u", "TAR_OPTIONS", "LC_ALL=C", "COPYFILE_DISABLE=1"];
  const child = spawn("env", [...environment, "tar", "-f", "-", "-b", blocks, ...options], {
    cwd: folder,
    // A signal of the terminal reaches only the platform, which then ends tar.
    detached: true,
  });
  await once(child, "spawn");
  const kill = (): void => void child.kill("SIGKILL");
  const abortListener = addAbortListener(signal, kill);
  // The end of tar says more than the error of a broken pipe.
  child.stdin.on("error", () => undefined);
  let message = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    message = `${message}${text}`.slice(0, messageLengthMax);
  });
  const end = once(child, "close").then(([code, killedBy]) => {
    abortListener[Symbol.dispose]();
    signal.throwIfAborted();
    if (code === 0) return;
    const exit = code === null ? `ended by ${killedBy}` : `exit code ${code}`;
    throw new Error(oneLine(message.trim()) || `tar: ${exit}`);
  });
  // A caller that stops early does not await the end.
  end.catch(() => undefined);
  return {
    input: child.stdin,
    output: child.stdout,
    end,
    async [Symbol.asyncDispose]() {
      kill();
      child.stdout.destroy();
      await end.catch(() => undefined);
    },
  };
}
