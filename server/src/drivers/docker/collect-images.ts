// Removes images of builds: given ones, or all that are no longer used. The latter also removes the
// folders of killed builds, and cuts down the engine's build cache.
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
  /** How much of earlier steps the engine may keep, and for how long. */
  readonly cache: { readonly bytesMax: number; readonly hoursMax: number };
};

/** Removes images by id or name, except those that a running container uses. */
export async function removeImages(client: BuildClient, images: readonly string[]): Promise<void> {
  for (const image of images) {
    await client.run(["image", "rm", "--force", image]).catch((error: unknown) => {
      if (!/No such image|being used by running container/i.test(String(error))) throw error;
    });
  }
}

/** Removes images that no release needs; see `Builder.collect`. */
export async function collectImages(
  client: BuildClient,
  { installationId, buildsDir, cache }: CollectParts,
  readUsed: () => Promise<UsedArtifacts>,
): Promise<void> {
  // Images and folders are listed before `readUsed`, so that what newer builds make is not removed.
  const images = await builtImages(client, installationId);
  const folders = await readdir(buildsDir).catch(() => []);
  const { artifacts, building } = await readUsed();
  const ofDocker = artifacts.filter(({ kind }) => kind === "docker");
  const usedIds = new Set(ofDocker.map((artifact) => dockerArtifact(artifact).image));
  const runningBuilds = new Set<string>(building);
  const unused = images.filter(({ id, build }) => !usedIds.has(id) && !runningBuilds.has(build));
  await removeImages(
    client,
    unused.map(({ id }) => id),
  );
  for (const name of folders) {
    if (!runningBuilds.has(name)) await removeBuildFolder(join(buildsDir, name));
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

/** Removes the folder if it was made for a build, which the client's configuration in it shows. */
async function removeBuildFolder(dir: string): Promise<void> {
  if (existsSync(join(dir, clientFolder))) await removeFolder(dir);
}
