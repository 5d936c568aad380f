// Reads the beginning of one file of a container, which may have exited, through the engine.
import { posix } from "node:path";
import type { Readable } from "node:stream";
import type Docker from "dockerode";
import { extract } from "tar-stream";

/** `path`: as the container's command sees it. Null when it is no plain file there. */
export async function beginOfFile(
  container: Docker.Container,
  path: string,
  bytesMax: number,
): Promise<Buffer | null> {
  const { Config } = await container.inspect();
  const archive = (await container.getArchive({
    path: posix.resolve("/", Config.WorkingDir, path),
  })) as Readable;
  const entries = archive.pipe(extract());
  // What is read is enough; the end of the rest is nobody's error.
  for (const stream of [archive, entries]) stream.on("error", () => undefined);
  try {
    for await (const entry of entries) {
      if (entry.header.type !== "file") return null;
      let begin = Buffer.alloc(0);
      // The engine packs the file as it sends it, so that the rest of a large one is never read.
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
