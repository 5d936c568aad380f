// Opens the process driver: replicas and builds run as processes of this machine, sandboxed if the machine allows it.
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { computeTypes } from "@slipway/contract/app-choices.ts";
import type { DriverParts, OpenedDriver } from "#drivers/opened-driver.ts";
import { CannotStart } from "#lib/cannot-start.ts";
import type { Log } from "#lib/log.ts";
import { ProcessBuilder } from "./builder.ts";
import { detectCgroups, releaseCgroups } from "./cgroup-detect.ts";
import { detectSandbox } from "./detect-sandbox.ts";
import { DiskReserve } from "./disk-reserve.ts";
import { DiskWatch, type DiskWatchOptions } from "./disk-watch.ts";
import { ProcessDriver } from "./driver.ts";
import { applyNetworkRules, type NetworkWish } from "./network-machine.ts";
import { PythonFinder } from "./python-find.ts";
import { ownNetwork, type Sandbox } from "./sandbox.ts";

const runtimeDir = join(import.meta.dirname, "../../../../runtimes/python");

/** Settings of the process driver. */
export type ProcessDriverConfig = {
  readonly dataDir: string;
  /** Where the platform listens. */
  readonly host: string;
  readonly publicUrl: string | null;
  readonly appNetwork: Omit<NetworkWish, "folder">;
  /** Limits for writes to the disk, and the space to keep free, in bytes; null: no limit, or derived from the disk's size. */
  readonly disk: DiskWatchOptions["limits"];
  /** Apps that ask for other compute types run on the CPU. */
  readonly simulateCompute: boolean;
  readonly toolEnvironment: Readonly<Record<string, string>>;
  readonly buildTimeoutSeconds: number;
  readonly paths: { readonly replicasDir: string; readonly storageDir: string; readonly buildsDir: string };
};

/** Throws `CannotStart` when the settings ask for something that this machine does not support. */
export async function open(
  config: ProcessDriverConfig,
  { instanceId, log, lifecycle, clock }: DriverParts,
): Promise<OpenedDriver> {
  const { paths } = config;
  await mkdir(paths.replicasDir, { recursive: true, mode: 0o700 });
  const sandbox = await detectSandbox(paths.replicasDir, config.appNetwork);
  refuseLess(config, sandbox);
  const cgroups = detectCgroups(instanceId);
  lifecycle.onClose("cgroups", () => releaseCgroups(cgroups));
  const disk = await openDisk(config, sandbox, { log, lifecycle, clock });
  if (config.simulateCompute) {
    log.warn("SLIPWAY_SIMULATE_COMPUTE is on: apps that ask for a GPU or another accelerator run on the CPU");
  }
  const compute = config.simulateCompute ? computeTypes : (["CPU"] as const);
  const { dataDir, toolEnvironment } = config;
  const { replicasDir, storageDir, buildsDir } = paths;
  const driver = new ProcessDriver({
    ...{ instanceId, dataDir, replicasDir, storageDir, runtimeDir, sandbox, cgroups, disk, compute, clock, log },
  });
  const builder = new ProcessBuilder({
    ...{ buildsDir, toolEnvironment, runtimeDir, sandbox, cgroups, disk, clock },
    pythons: new PythonFinder({ environment: toolEnvironment }),
    commandTimeoutMs: config.buildTimeoutSeconds * 1000,
    hidden: [dataDir],
  });
  return {
    ...{ driver, builder, disk },
    onListening: (port) => letAppsCall(sandbox, { config, port, log }),
  };
}

function refuseLess({ appNetwork }: ProcessDriverConfig, sandbox: Sandbox): void {
  if (appNetwork.mode !== "own") return;
  const shared = sandbox.kind === "none" ? sandbox : sandbox.network.kind === "shared" ? sandbox.network : null;
  if (shared === null) return;
  throw new CannotStart(
    `SLIPWAY_APP_NETWORK is own, but replicas cannot have their own networks here: ${shared.reason}. Fix that, or set it to auto.`,
  );
}

async function letAppsCall(
  sandbox: Sandbox,
  { config, port, log }: { readonly config: ProcessDriverConfig; readonly port: number; readonly log: Log },
): Promise<void> {
  const network = ownNetwork(sandbox);
  if (network === null) return;
  const isEveryAddress = ["0.0.0.0", "::", "localhost"].includes(config.host);
  network.platform = { host: isEveryAddress ? "127.0.0.1" : config.host, ports: portsOf(config, port) };
  const failure = await applyNetworkRules(network);
  if (failure !== null) log.error({ reason: failure }, "the rules of apps' networks could not be put in force");
}

/** The platform's own port, and the port of a proxy in front of it on this machine. */
function portsOf({ publicUrl }: ProcessDriverConfig, port: number): number[] {
  const url = publicUrl === null ? null : URL.parse(publicUrl);
  if (url === null) return [port];
  const publicPort = Number(url.port || (url.protocol === "https:" ? 443 : 80));
  return publicPort === port ? [port] : [port, publicPort];
}

async function openDisk(
  { dataDir, disk: limits, paths }: ProcessDriverConfig,
  sandbox: Sandbox,
  { log, lifecycle, clock }: Omit<DriverParts, "instanceId">,
): Promise<DiskWatch> {
  const isUserOwned = sandbox.kind === "namespaces" && sandbox.isUserOwned;
  const reserve = new DiskReserve(dataDir);
  const { storageDir } = paths;
  const disk = new DiskWatch({ dataDir, storageDir, limits, reserve, isUserOwned, clock, log });
  await disk.open();
  lifecycle.onClose("disk", () => disk.close());
  return disk;
}
