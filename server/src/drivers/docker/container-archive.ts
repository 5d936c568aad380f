// Reads the beginning of one file of a container, which may have exited, through the engine.
import { posix } from "node:path";
import { pipeline, type Readable } from "node:stream";
import type Docker from "dockerode";
import { extract } from "tar-stream";

/**
 * Returns the first bytes of the file, at most `bytesMax`; null when it is no plain file. `path` is
 * a path as the container's command sees it. Rejects when the engine's answer breaks off.
 */
export async function beginOfFile(
  container: Docker.Container,
  path: string,
  bytesMax: number,
): Promise<Buffer | null> {
  const { Config } = await container.inspect();
  const archive = (await container.getArchive({
    path: posix.resolve("/", Config.WorkingDir, path),
  })) as Readable;
  const entries = extract();
  // Nothing is done with errors here. When the answer breaks off, the loop below throws the error.
  // When the loop ends early, destroying the streams gives an error that means nothing.
  pipeline(archive, entries, () => undefined);
  try {
    // The archive of a file has one entry.
    for await (const entry of entries) {
      if (entry.header.type !== "file") return null;
      let begin = Buffer.alloc(0);
      // The engine reads a file piece by piece while sending it, so the rest of a large file is
      // never read.
      for await (const chunk of entry) {
        begin = Buffer.concat([begin, chunk as Buffer]);
        if (begin.length >= bytesMax) break;
      }
      return begin.subarray(0, bytesMax);
    }
    return null;
  } finally {
    archive.destroy();
    entries.destroy();
  }
}
