// Compares the containers that the driver knows with the engine's list: when the platform starts
// and takes over the containers of an earlier process, and later again, in case an event was lost.
import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import type { ContainerInfo } from "dockerode";
import type { Starts } from "#drivers/starts.ts";
import { sharedStoragePath } from "#drivers/storage.ts";
import type { ReplicaId } from "#lib/ids.ts";
import type { Log } from "#lib/log.ts";
import type { AppNetworks } from "./app-networks.ts";
import type { Container } from "./container.ts";
import { labels, recordInLabels, type ContainerRecord } from "./container-spec.ts";
import { removeContainer } from "./create-container.ts";
import type { Engine } from "./engine.ts";

type CompareParts = {
  readonly engine: Engine;
  readonly installationId: string;
  /** The folder with one file for each replica. */
  readonly containersDir: string;
  /** Where the storage of apps is on the engine's machine. */
  readonly mountedStorageDir: string;
  readonly networks: AppNetworks;
  readonly log: Log;
  /** The replicas that the driver knows, including ended ones. */
  readonly replicas: Map<ReplicaId, Container>;
  /** The starts in progress. */
  readonly starts: Starts;
};

const storedElsewhere =
  "these replicas go on with the storage of another data folder: move its files here, then restart their apps";

/**
 * Adds the containers of an earlier process of the platform to `replicas`, and removes containers
 * that were created but never started.
 */
export async function takeOverContainers(
  parts: CompareParts,
  containerOf: (containerId: string, record: ContainerRecord) => Container,
): Promise<void> {
  const { replicas, containersDir, mountedStorageDir, log } = parts;
  const elsewhere: ReplicaId[] = [];
  for (const { Id, Labels, State, Mounts } of await listed(parts)) {
    const record = recordInLabels(Labels);
    if (record === null || replicas.has(record.replicaId)) continue;
    if (State === "created") {
      await removeContainer(Id, parts);
      continue;
    }
    replicas.set(record.replicaId, containerOf(Id, record));
    if (!isStoredIn(mountedStorageDir, Mounts)) elsewhere.push(record.replicaId);
  }
  if (elsewhere.length > 0)
    log.warn({ replicaIds: elsewhere, storageDir: mountedStorageDir }, storedElsewhere);
  // Removes the files of replicas that have no container any more.
  for (const name of await readdir(containersDir)) {
    if (!replicas.has(name as ReplicaId)) await rm(join(containersDir, name), { force: true });
  }
}

/**
 * Looks at each container that the platform takes for running, but that does not run according to
 * the engine. Removes unused containers and networks. Rejects when the engine does not answer.
 */
export async function compareContainers(parts: CompareParts): Promise<void> {
  const { replicas, starts, networks } = parts;
  const all = await listed(parts);
  await removeUnknown(all, parts);
  const running = new Set(all.filter(({ State }) => State === "running").map(({ Id }) => Id));
  const missing = [...replicas.values()].filter(
    ({ isEnded, containerId }) => !isEnded && !running.has(containerId),
  );
  await Promise.all(missing.map((container) => container.look()));
  const usedNetworks = [
    ...all.map(({ HostConfig }) => HostConfig.NetworkMode),
    ...starts.specs.map((spec) => networks.nameOf(spec)),
  ];
  await networks.removeIdle(new Set(usedNetworks));
}

function listed({ engine, installationId }: CompareParts): Promise<ContainerInfo[]> {
  const filters = { label: [`${labels.instance}=${installationId}`, labels.replica] };
  return engine.calls.listContainers({ all: true, filters });
}

/**
 * Removes containers that belong to no replica: the engine could not report how their start went,
 * for example because it was restarted.
 */
async function removeUnknown(all: readonly ContainerInfo[], parts: CompareParts): Promise<void> {
  const unknown = all.filter(({ Labels }) => {
    const replicaId = Labels[labels.replica] as ReplicaId;
    return !parts.replicas.has(replicaId) && !parts.starts.has(replicaId);
  });
  for (const { Id } of unknown) await removeContainer(Id, parts);
}

/** Whether the storage of the container's project is in this folder. */
function isStoredIn(storageDir: string, mounts: ContainerInfo["Mounts"]): boolean {
  const shared = mounts.find(({ Destination }) => Destination === sharedStoragePath);
  return shared === undefined || shared.Source.startsWith(`${storageDir}/`);
}
