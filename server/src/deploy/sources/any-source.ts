// Fetches the files of every build: from its upload where it has one, else from the app's
// repository.
import { join } from "node:path";
import type { FetchedSource, Source, SourceRequest } from "#deploy/source.ts";
import { collectUploads } from "#deploy/uploads.ts";
import { removeFolder } from "#drivers/remove-folder.ts";
import type { AppId, BuildId } from "#lib/ids.ts";
import { unpack } from "./upload.ts";

export type AnySourceOptions = {
  readonly git: Source;
  readonly sourcesDir: string;
  readonly uploadsDir: string;
  /** The maximum size of the unpacked files of an upload. */
  readonly uploadBytesMax: number;
  /** Returns the ids of the uploads that are still needed. `collect` deletes all other files. */
  readonly readKeptUploads: () => Promise<readonly string[]>;
};

/** Fetches the files of each build, from git or from an upload, into the build's own folder. */
export class AnySource implements Source {
  readonly #options: AnySourceOptions;

  constructor(options: AnySourceOptions) {
    this.#options = options;
  }

  async check(): Promise<void> {
    await this.#options.git.check();
  }

  async fetch(request: SourceRequest): Promise<FetchedSource> {
    const { git, sourcesDir, uploadsDir, uploadBytesMax: bytesMax } = this.#options;
    if (request.uploadId === null) return await git.fetch(request);
    const folder = join(sourcesDir, request.buildId);
    try {
      return await unpack(
        { zipPath: join(uploadsDir, request.uploadId), folder, bytesMax },
        request,
      );
    } catch (error) {
      await removeFolder(folder);
      throw error;
    }
  }

  async remove(buildId: BuildId): Promise<void> {
    // The files of an upload are in the same folder as those of a repository would be.
    await this.#options.git.remove(buildId);
  }

  async collect(
    readBuilding: () => Promise<readonly BuildId[]>,
    readApps: (appIds: readonly string[]) => Promise<readonly AppId[]>,
  ): Promise<void> {
    await this.#options.git.collect(readBuilding, readApps);
    await collectUploads(this.#options.uploadsDir, this.#options.readKeptUploads);
  }
}
