// Makes a private network in the engine for each app, so that no app reaches another. If releases
// of an app differ in the setting egressCidrs, each value has a network of its own, since the rules
// of the machine's firewall are made for whole interfaces. A network stays for a while after its
// last replica, so that the next replica starts faster.
import { createHash } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { NetworkInspectInfo } from "dockerode";
import { limitEgress } from "#drivers/app-firewall-machine.ts";
import { installationLength, type Firewall } from "#drivers/app-firewall.ts";
import type { ReplicaSpec } from "#drivers/driver.ts";
import { readText } from "#drivers/process/read-text.ts";
import { chooseSubnet, subnetsRange } from "./app-subnet.ts";
import { labels } from "./container-spec.ts";
import { engineStatus, unlessStatus, type Engine } from "./engine.ts";
import type { KeyedNames } from "./keyed-names.ts";
import type { MachineFiles } from "./own-container.ts";
import type { DriverParts } from "#drivers/opened-driver.ts";

export type AppNetworksOptions = Pick<DriverParts, "clock" | "installationId"> & {
  readonly engine: Engine;
  /** Makes the names of interfaces. */
  readonly names: KeyedNames;
  /** Distinguishes the interfaces of this installation; see `Firewall`. */
  readonly installation: string;
  /** Null: firewall rules cannot be set on this machine. */
  readonly firewall: Firewall | null;
  readonly machine: MachineFiles;
};

/** How the firewall recognizes the interfaces and the addresses of apps; see `Firewall.links`. */
export const bridges = { prefix: "slb", range: subnetsRange };

type Owner = Pick<ReplicaSpec, "appId" | "egressCidrs">;

/**
 * How many ranges of addresses are tried to find one that no other network of the engine uses. The
 * first is nearly always free.
 */
const triesMax = 30;
/** How long a network stays after its last replica. */
const idleMs = 600_000;
/** The option of a network that names its interface. */
const bridgeOption = "com.docker.network.bridge.name";

/** The networks of one installation. */
export class AppNetworks {
  readonly #options: AppNetworksOptions;
  /**
   * The work in progress on each network, given by its name: creating and removing a network never
   * overlap.
   */
  readonly #turns = new Map<string, Promise<void>>();
  /** When each network, given by its name, was last seen in use; time of the monotonic clock. */
  readonly #usedAtMs = new Map<string, number>();

  constructor(options: AppNetworksOptions) {
    this.#options = options;
  }

  /** Restores the egress limits of networks that an earlier process of the platform made. */
  async adopt(): Promise<void> {
    for (const { Labels = {}, Options } of await this.#listed()) {
      const bridge = Options?.[bridgeOption] as string | undefined;
      const egress = Labels[labels.egress];
      if (bridge === undefined || egress === undefined) continue;
      this.#options.firewall?.egress.set(bridge, JSON.parse(egress) as readonly string[]);
    }
  }

  /** Makes sure that the app's network exists and has its rules; returns its name. */
  async ensure(owner: Owner): Promise<string> {
    const name = this.nameOf(owner);
    this.#usedAtMs.set(name, this.#options.clock.monotonicMs());
    await this.#inTurn(name, async () => {
      const { firewall, machine } = this.#options;
      // The engine is asked each time, since somebody may have removed the network.
      const existingBridge = await this.#interfaceOf(name);
      const bridge = existingBridge ?? this.#nameOfBridge(owner);
      if (firewall !== null && owner.egressCidrs !== null)
        await limitEgress(firewall, bridge, owner.egressCidrs);
      if (existingBridge === undefined) await this.#create(owner);
      // Lets packets of the apps reach the machine's loopback address, at which the platform may
      // listen; they are dropped if it may not write this file. The file is written each time,
      // since the engine makes the interface anew after a restart of the machine.
      const file = `/proc/sys/net/ipv4/conf/${bridge}/route_localnet`;
      await writeFile(join(machine.root, file), "1").catch(() => undefined);
    });
    return name;
  }

  /** Removes networks that no replica has used for a while. */
  async removeIdle(usedNames: ReadonlySet<string | undefined>): Promise<void> {
    const { engine, clock, firewall } = this.#options;
    for (const { Id, Name, Options } of await this.#listed()) {
      const nowMs = clock.monotonicMs();
      // A network that this process sees for the first time counts as just used.
      if (usedNames.has(Name) || !this.#usedAtMs.has(Name)) this.#usedAtMs.set(Name, nowMs);
      if (nowMs - (this.#usedAtMs.get(Name) ?? nowMs) < idleMs) continue;
      this.#usedAtMs.delete(Name);
      const remove = async (): Promise<void> => {
        // 404: somebody else has removed it.
        await unlessStatus([404], engine.calls.getNetwork(Id).remove());
        firewall?.egress.delete(Options?.[bridgeOption] as string);
      };
      // 403: a replica has just been started in it.
      await unlessStatus([403], this.#inTurn(Name, remove));
    }
  }

  /** Removes all networks without replicas. Call it when no more replicas are going to start. */
  async removeUnused(): Promise<void> {
    for (const { Id } of await this.#listed()) {
      // 403: something is connected to it; 404: it is gone already.
      await unlessStatus([403, 404], this.#options.engine.calls.getNetwork(Id).remove());
    }
  }

  /** Returns the name of the network for a replica of this app with this setting. */
  nameOf({ appId, egressCidrs }: Owner): string {
    // No id of an app contains a dot, so names of two apps never collide.
    const suffix = egressCidrs === null ? "" : `.${hashOf(JSON.stringify(egressCidrs))}`;
    return `slipway-${this.#options.installation}-${appId}${suffix}`;
  }

  #listed() {
    const filters = { label: [`${labels.instance}=${this.#options.installationId}`] };
    return this.#options.engine.calls.listNetworks({ filters });
  }

  /**
   * Returns the name that a new network's interface gets. The prefix, the installation and 8 digits
   * together have 15 characters, the kernel's limit.
   */
  #nameOfBridge({ appId, egressCidrs }: Owner): string {
    const { installation, names } = this.#options;
    const limits = egressCidrs === null ? "" : ` ${JSON.stringify(egressCidrs)}`;
    const digits = names("interface", `${appId}${limits}`).slice(0, 8);
    return `${bridges.prefix}${installation}${digits}`;
  }

  /** Calls `act` when the earlier work on this network is done. */
  async #inTurn(name: string, act: () => Promise<unknown>): Promise<void> {
    const earlier = this.#turns.get(name) ?? Promise.resolve();
    const done = earlier.then(act).then(() => undefined);
    const settled = done.catch(() => undefined);
    this.#turns.set(name, settled);
    await done.finally(() => {
      if (this.#turns.get(name) === settled) this.#turns.delete(name);
    });
  }

  /** Returns the interface of the network with this name; undefined: there is no such network. */
  async #interfaceOf(name: string): Promise<string | undefined> {
    const network = this.#options.engine.calls.getNetwork(name);
    const info = (await unlessStatus([404], network.inspect())) as NetworkInspectInfo | undefined;
    return info?.Options?.[bridgeOption];
  }

  async #create(owner: Owner): Promise<void> {
    const { engine, installationId } = this.#options;
    const create = (): Promise<unknown> =>
      engine.calls.createNetwork({
        Name: this.nameOf(owner),
        CheckDuplicate: true,
        Driver: "bridge",
        IPAM: { Config: [{ Subnet: chooseSubnet(readText("/proc/net/route")) }] },
        Options: {
          [bridgeOption]: this.#nameOfBridge(owner),
          // Replicas of an app have no business with each other either.
          "com.docker.network.bridge.enable_icc": "false",
        },
        Labels: {
          [labels.instance]: installationId,
          [labels.app]: owner.appId,
          ...(owner.egressCidrs === null
            ? {}
            : { [labels.egress]: JSON.stringify(owner.egressCidrs) }),
        },
      });
    for (let tries = 1; ; tries++) {
      try {
        await create();
        break;
      } catch (error) {
        // There is a network of this name already.
        if (engineStatus(error) === 409) break;
        const isRangeTaken = error instanceof Error && error.message.includes("overlap");
        if (!isRangeTaken || tries === triesMax) throw error;
      }
    }
  }
}

/**
 * Returns the installation's short name (see `installationOf`) from the interfaces of its networks;
 * null when it has no networks. A platform with another data folder goes on with this name, so that
 * the rules for running apps stay in one table, and the names of all networks contain the same
 * short name.
 */
export async function installationInUse(
  { calls }: Pick<Engine, "calls">,
  installationId: string,
): Promise<string | null> {
  const filters = { label: [`${labels.instance}=${installationId}`, labels.app] };
  for (const { Options } of await calls.listNetworks({ filters })) {
    const bridge = (Options?.[bridgeOption] as string | undefined) ?? "";
    if (bridge.startsWith(bridges.prefix))
      return bridge.slice(bridges.prefix.length, bridges.prefix.length + installationLength);
  }
  return null;
}

/** Returns 8 digits, which are enough to distinguish the few values of one app. */
function hashOf(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, 8);
}

/** Returns the interface of the network in which the engine runs builds; null when it has none. */
export async function defaultBridge({ calls }: Pick<Engine, "calls">): Promise<string | null> {
  const network = (await unlessStatus([404], calls.getNetwork("bridge").inspect())) as
    | NetworkInspectInfo
    | undefined;
  // Without the option, the interface has its usual name.
  return network === undefined ? null : (network.Options?.[bridgeOption] ?? "docker0");
}
