// Opens the process driver: replicas and builds run as processes of this machine, sandboxed if the
// machine allows it.
import { letAppsCall, type Reachable } from "#drivers/app-firewall-machine.ts";
import { openDisk, type DiskConfig } from "#drivers/disk/open-disk.ts";
import { mkdir } from "node:fs/promises";
import type { DriverParts, OpenedDriver } from "#drivers/opened-driver.ts";
import { openPlacement, type PoolSettings } from "#drivers/pools/open-placement.ts";
import { StorageFiles } from "#drivers/storage-files.ts";
import { CannotStart } from "#lib/cannot-start.ts";
import type { ProjectId } from "#lib/ids.ts";
import { ownFiles } from "#lib/own-files.ts";
import { ProcessBuilder } from "./builder.ts";
import { detectCgroups, releaseCgroups } from "./cgroup-detect.ts";
import { detectSandbox } from "./detect-sandbox.ts";
import { ProcessDriver } from "./driver.ts";
import type { NetworkWish } from "./network-machine.ts";
import { ownerOf } from "./replica-program.ts";
import { PythonFinder } from "./python-find.ts";
import { ownNetwork, type Sandbox } from "./sandbox.ts";

/** Settings of the process driver. */
export type ProcessDriverConfig = DiskConfig &
  PoolSettings &
  Reachable & {
    readonly appNetwork: Omit<NetworkWish, "folder">;
    readonly buildTimeoutSeconds: number;
    readonly paths: {
      readonly replicasDir: string;
      readonly storageDir: string;
      readonly buildsDir: string;
    };
  };

/** Throws `CannotStart` when the settings ask for something that this machine does not support. */
export async function openProcessDriver(
  config: ProcessDriverConfig,
  { installationId, instanceId, log, lifecycle, clock }: DriverParts,
): Promise<OpenedDriver> {
  const placement = await openPlacement(config, { log, lifecycle, clock });
  const { paths } = config;
  await mkdir(paths.replicasDir, { recursive: true, mode: 0o700 });
  const sandbox = await detectSandbox(paths.replicasDir, config.appNetwork);
  requireAppNetwork(config, sandbox);
  const cgroups = detectCgroups(instanceId);
  lifecycle.onClose("cgroups", () => releaseCgroups(cgroups));
  const isUserOwned = sandbox.kind === "namespaces" && sandbox.isUserOwned;
  const disk = await openDisk(config, isUserOwned, { log, lifecycle, clock });
  const { dataDir, toolEnvironment } = config;
  const { replicasDir, storageDir, buildsDir } = paths;
  const driver = new ProcessDriver({
    installationId,
    dataDir,
    replicasDir,
    storageDir,
    runtimeDir: ownFiles.pythonRuntime,
    sandbox,
    isUserOwned,
    cgroups,
    disk,
    placement,
    clock,
    log,
  });
  const builder = new ProcessBuilder({
    buildsDir,
    toolEnvironment,
    runtimeDir: ownFiles.pythonRuntime,
    sandbox,
    cgroups,
    disk,
    clock,
    pythons: new PythonFinder({ environment: toolEnvironment }),
    commandTimeoutMs: config.buildTimeoutSeconds * 1000,
    hidden: [dataDir],
  });
  const userOf = (projectId: ProjectId): number | null => ownerOf(projectId, sandbox);
  const files = new StorageFiles({ storageDir, userOf, isUserOwned });
  return {
    driver,
    builder,
    disk,
    files,
    onListening: (port) => letAppsCall(ownNetwork(sandbox), { config, port, log }),
  };
}

/** Throws `CannotStart` when the setting asks for networks that this machine does not support. */
function requireAppNetwork({ appNetwork }: ProcessDriverConfig, sandbox: Sandbox): void {
  if (appNetwork.mode !== "own") return;
  const reason = whyShared(sandbox);
  if (reason === null) return;
  throw new CannotStart(
    `SLIPWAY_APP_NETWORK is own, but replicas cannot have their own networks here: ${reason}. Fix that, or set it to auto.`,
  );
}

/** Why replicas share the machine's network; null: each has its own. */
function whyShared(sandbox: Sandbox): string | null {
  if (sandbox.kind === "none") return sandbox.reason;
  return sandbox.network.kind === "shared" ? sandbox.network.reason : null;
}
