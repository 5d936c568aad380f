// Removes images of builds: single ones, and in a collection all that nobody uses any more, with
// the folders of killed builds and what the engine's cache holds too much of.
import { existsSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import type { UsedArtifacts } from "#drivers/builder.ts";
import { removeFolder } from "#drivers/remove-folder.ts";
import { dockerArtifact } from "./artifact.ts";
import { clientFolder, type BuildClient } from "./build-client.ts";
import { labels } from "./container-spec.ts";

export type CollectParts = {
  readonly installationId: string;
  /** Absolute path; holds a folder for each running build. */
  readonly buildsDir: string;
  /** What the engine may keep of earlier steps. */
  readonly cache: { readonly bytesMax: number; readonly hoursMax: number };
};

/** Removes images by id or name. One that a container still runs from is left. */
export async function removeImages(client: BuildClient, images: readonly string[]): Promise<void> {
  for (const image of images) {
    await client.run(["image", "rm", "--force", image]).catch((error: unknown) => {
      if (!/No such image|being used by running container/i.test(String(error))) throw error;
    });
  }
}

/** See `Builder.collect`. */
export async function collectImages(
  client: BuildClient,
  { installationId, buildsDir, cache }: CollectParts,
  readUsed: () => Promise<UsedArtifacts>,
): Promise<void> {
  // Builds that begin after this are unknown to `readUsed`, and so are their images to this.
  const images = await builtImages(client, installationId);
  const folders = await readdir(buildsDir).catch(() => []);
  const { artifacts, building } = await readUsed();
  const used = new Set(
    artifacts.flatMap((one) => (one.kind === "docker" ? [dockerArtifact(one).image] : [])),
  );
  const builds = new Set<string>(building);
  await removeImages(
    client,
    images.filter(({ id, build }) => !used.has(id) && !builds.has(build)).map(({ id }) => id),
  );
  for (const name of folders) {
    if (!builds.has(name)) await removeBuildFolder(join(buildsDir, name));
  }
  await client.run(["builder", "prune", "--force", `--filter=until=${cache.hoursMax}h`]);
  await client.run(["builder", "prune", "--force", `--keep-storage=${cache.bytesMax}`]);
}

/** The images of this installation's builds. */
async function builtImages(
  client: BuildClient,
  installationId: string,
): Promise<{ readonly id: string; readonly build: string }[]> {
  const filter = `--filter=label=${labels.instance}=${installationId}`;
  const list = await client.run(["image", "ls", "--quiet", "--no-trunc", filter]);
  const ids = new Set(list.split("\n").filter(Boolean));
  if (ids.size === 0) return [];
  const form = `--format={{.Id}} {{index .Config.Labels "${labels.build}"}}`;
  const lines = (await client.run(["image", "inspect", form, ...ids])).split("\n");
  return lines.map((line) => line.split(" ")).map(([id = "", build = ""]) => ({ id, build }));
}

/** Folders without the client's configuration are of the process driver's builds. */
async function removeBuildFolder(dir: string): Promise<void> {
  if (existsSync(join(dir, clientFolder))) await removeFolder(dir);
}
