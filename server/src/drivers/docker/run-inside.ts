// Runs a command in a container with a program of its image: as the app's user, within its limits
// and with its rights.
import { addAbortSignal, type Readable } from "node:stream";
import type { Engine } from "./engine.ts";
import { LogFrames } from "./log-frames.ts";

/** The image is a stranger's, and so is what its programs print. */
const outputBytesMax = 256 * 1024;

/**
 * The exit code, null when it is unknown, and the beginning of what it printed. Rejects when the
 * engine starts no such command, and when `signal` is aborted: it may never end.
 */
export async function runInside(
  { streams }: Pick<Engine, "streams">,
  containerId: string,
  command: readonly string[],
  signal?: AbortSignal,
): Promise<{ readonly exitCode: number | null; readonly output: string }> {
  const given = { Cmd: [...command], AttachStdout: true };
  const run = await streams.getContainer(containerId).exec(given);
  const stream = (await run.start({ hijack: false, stdin: false })) as unknown as Readable;
  if (signal !== undefined) addAbortSignal(signal, stream);
  const frames = new LogFrames({ hasTimes: false });
  let output = Buffer.alloc(0);
  for await (const chunk of stream) {
    if (output.length > outputBytesMax) continue;
    output = Buffer.concat([output, ...frames.take(chunk as Buffer).map(({ bytes }) => bytes)]);
  }
  return { exitCode: (await run.inspect()).ExitCode, output: output.toString("utf8") };
}
