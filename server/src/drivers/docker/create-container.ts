// Creates the container of a replica, with its folders and in its app's network, and removes
// containers that are of no use.
import { keepFirewall } from "#drivers/app-firewall-machine.ts";
import type { Firewall } from "#drivers/app-firewall.ts";
import type { ContainerRuntimes } from "#drivers/container-runtimes.ts";
import type { ReplicaSpec } from "#drivers/driver.ts";
import type { CardClaim } from "#drivers/pools/cards.ts";
import { makeOwnedFolder, storageMounts } from "#drivers/storage.ts";
import type { Log } from "#lib/log.ts";
import type { AppNetworks } from "./app-networks.ts";
import { dockerArtifact } from "./artifact.ts";
import { containerSpec } from "./container-spec.ts";
import { engineStatus, unlessStatus, type Engine } from "./engine.ts";

type CreateParts = {
  readonly engine: Engine;
  readonly installationId: string;
  readonly storageDir: string;
  /** The same folder on the engine's machine; see `findSharedPaths`. */
  readonly mountedStorageDir: string;
  /** Null: firewall rules cannot be set on this machine. */
  readonly firewall: Firewall | null;
  readonly networks: AppNetworks;
  readonly runtimes: ContainerRuntimes;
  readonly claim: CardClaim;
  readonly log: Log;
};

/** Returns the id of the container, which is not started. Rejects with the engine's refusal. */
export async function createContainer(spec: ReplicaSpec, parts: CreateParts): Promise<string> {
  const { engine, installationId, firewall, networks, runtimes, claim, log } = parts;
  // Only root can give a folder another owner.
  const user = process.getuid?.() === 0 ? dockerArtifact(spec.artifact).user : null;
  for (const { from } of storageMounts(spec, parts.storageDir)) makeOwnedFolder(from, user);
  // No app runs without the rules, even if another program has removed them.
  if (firewall !== null) await keepFirewall(firewall);
  const options = containerSpec(spec, {
    claim,
    installationId,
    storage: storageMounts(spec, parts.mountedStorageDir),
    cores: engine.facts.cores,
    runtime: spec.containerRuntime === null ? undefined : runtimes[spec.containerRuntime],
    filesMax: engine.facts.filesMax,
    nameServers: firewall?.nameServers ?? null,
    isPublished: !engine.facts.hasReachableContainers,
    network: await networks.ensure(spec),
  });
  const create = async (): Promise<string> => (await engine.calls.createContainer(options)).id;
  return create().catch(async (error: unknown) => {
    // 409: an earlier start created the container, and was killed before its next step.
    if (engineStatus(error) !== 409) throw error;
    // `containerSpec` always gives a name.
    await removeContainer(options.name ?? "", { engine, log });
    return create();
  });
}

/**
 * Removes a container even while it runs, with its anonymous volumes (`v`). Never rejects: the next
 * comparison with the engine's list tries again.
 */
export async function removeContainer(
  idOrName: string,
  { engine, log }: { readonly engine: Engine; readonly log: Log },
): Promise<void> {
  const container = engine.calls.getContainer(idOrName);
  // 404: the container is gone; 409: it is being removed already.
  await unlessStatus([404, 409], container.remove({ force: true, v: true })).catch(
    (error: unknown) => {
      log.warn(
        { err: error, containerId: idOrName },
        "a container that was not started could not be removed",
      );
    },
  );
}
