// Runs a program of a container's image in the container: as the app's user, and with the app's
// limits and rights.
import { addAbortSignal, type Readable } from "node:stream";
import type { Engine } from "./engine.ts";
import { LogFrames } from "./log-frames.ts";

/** More output is ignored: the programs of an app's image may print any amount. */
const outputBytesMax = 256 * 1024;

/**
 * Returns the command's exit code, null when it is unknown, and the beginning of its output.
 * Rejects when the engine does not start the command, and when `signal` is aborted: the command may
 * never end.
 */
export async function runInside(
  { streams }: Pick<Engine, "streams">,
  containerId: string,
  command: readonly string[],
  signal?: AbortSignal,
): Promise<{ readonly exitCode: number | null; readonly output: string }> {
  const options = { Cmd: [...command], AttachStdout: true };
  const exec = await streams.getContainer(containerId).exec(options);
  const stream = (await exec.start({ hijack: false, stdin: false })) as unknown as Readable;
  if (signal !== undefined) addAbortSignal(signal, stream);
  const frames = new LogFrames({ hasTimes: false });
  let output = Buffer.alloc(0);
  for await (const chunk of stream) {
    if (output.length > outputBytesMax) continue;
    output = Buffer.concat([output, ...frames.take(chunk as Buffer).map(({ bytes }) => bytes)]);
  }
  return { exitCode: (await exec.inspect()).ExitCode, output: output.toString("utf8") };
}
