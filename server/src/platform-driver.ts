// Opens what runs replicas and builds; this version has the process driver. A part of `platform.ts`.
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { computeTypes } from "@slipway/contract/app-choices.ts";
import type { Builder } from "#drivers/builder.ts";
import type { Driver } from "#drivers/driver.ts";
import { ProcessBuilder } from "#drivers/process/builder.ts";
import { detectCgroups, releaseCgroups } from "#drivers/process/cgroup-detect.ts";
import { detectSandbox } from "#drivers/process/detect-sandbox.ts";
import { DiskReserve } from "#drivers/process/disk-reserve.ts";
import { DiskWatch } from "#drivers/process/disk-watch.ts";
import { applyNetworkRules } from "#drivers/process/network-machine.ts";
import { ProcessDriver } from "#drivers/process/driver.ts";
import { PythonFinder } from "#drivers/process/python-find.ts";
import { ownNetwork, type Sandbox } from "#drivers/process/sandbox.ts";
import { CannotStart } from "#lib/cannot-start.ts";
import type { Log } from "#lib/log.ts";
import { dataPaths, type Config } from "./config.ts";
import type { Foundation } from "./platform-foundation.ts";

const runtimeDir = join(import.meta.dirname, "../../runtimes/python");

export type OpenedDriver = {
  readonly driver: Driver;
  readonly builder: Builder;
  readonly disk: DiskWatch;
  /** Why nothing new is stored for want of room; null: there is room, or the database is elsewhere. */
  readonly storeRefusal: () => string | null;
  /** Once the platform listens: apps in networks of their own may call it there. */
  readonly onListening: (port: number) => Promise<void>;
};

/** Throws `CannotStart` where the settings ask for what this machine cannot do. */
export async function openDriver(
  config: Config,
  { instanceId, log, lifecycle, clock }: Pick<Foundation, "instanceId" | "log" | "lifecycle" | "clock">,
): Promise<OpenedDriver> {
  if (config.driver !== null && config.driver !== "process") {
    throw new CannotStart(
      `SLIPWAY_DRIVER is ${config.driver}, but this version has only the process driver; set it to process or leave it out.`,
    );
  }
  const paths = dataPaths(config.dataDir);
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
    storeRefusal: () => (config.databaseUrl === null ? disk.storeRefusal() : null),
    onListening: (port) => letAppsCall(sandbox, { config, port, log }),
  };
}

function refuseLess({ appNetwork }: Config, sandbox: Sandbox): void {
  if (appNetwork.mode !== "own") return;
  const shared = sandbox.kind === "none" ? sandbox : sandbox.network.kind === "shared" ? sandbox.network : null;
  if (shared === null) return;
  throw new CannotStart(
    `SLIPWAY_APP_NETWORK is own, but replicas cannot have their own networks here: ${shared.reason}. Fix that, or set it to auto.`,
  );
}

async function letAppsCall(
  sandbox: Sandbox,
  { config, port, log }: { readonly config: Config; readonly port: number; readonly log: Log },
): Promise<void> {
  const network = ownNetwork(sandbox);
  if (network === null) return;
  const isEveryAddress = ["0.0.0.0", "::", "localhost"].includes(config.host);
  network.platform = { host: isEveryAddress ? "127.0.0.1" : config.host, ports: portsOf(config, port) };
  const failure = await applyNetworkRules(network);
  if (failure !== null) log.error({ reason: failure }, "the rules of apps' networks could not be put in force");
}

/** The platform's own port, and that of a proxy before it on this machine. */
function portsOf({ publicUrl }: Config, port: number): number[] {
  const url = publicUrl === null ? null : URL.parse(publicUrl);
  if (url === null) return [port];
  const publicPort = Number(url.port || (url.protocol === "https:" ? 443 : 80));
  return publicPort === port ? [port] : [port, publicPort];
}

async function openDisk(
  { dataDir, disk: limits }: Config,
  sandbox: Sandbox,
  { log, lifecycle, clock }: Pick<Foundation, "log" | "lifecycle" | "clock">,
): Promise<DiskWatch> {
  const isUserOwned = sandbox.kind === "namespaces" && sandbox.isUserOwned;
  const reserve = new DiskReserve(dataDir);
  const { storageDir } = dataPaths(dataDir);
  const disk = new DiskWatch({ dataDir, storageDir, limits, reserve, isUserOwned, clock, log });
  await disk.open();
  lifecycle.onClose("disk", () => disk.close());
  return disk;
}
