// One private network in the engine for each app, so that no app reaches another, and for each
// value of its setting egressCidrs: the machine's rules tell apps apart by the interface. It stays
// for a while after its last replica, since the next one starts faster then.
import { createHash } from "node:crypto";
import { writeFile } from "node:fs/promises";
import type { NetworkInspectInfo } from "dockerode";
import { limitEgress } from "#drivers/app-firewall-machine.ts";
import { installationLength, type Firewall } from "#drivers/app-firewall.ts";
import type { ReplicaSpec } from "#drivers/driver.ts";
import { readText } from "#drivers/process/read-text.ts";
import { chooseSubnet, subnetsRange } from "./app-subnet.ts";
import { labels } from "./container-spec.ts";
import { engineStatus, unlessStatus, type Engine } from "./engine.ts";
import type { KeyedNames } from "./keyed-names.ts";
import type { DriverParts } from "#drivers/opened-driver.ts";

export type AppNetworksOptions = Pick<DriverParts, "clock" | "installationId"> & {
  readonly engine: Engine;
  readonly names: KeyedNames;
  /** See `Firewall`. */
  readonly installation: string;
  readonly firewall: Firewall | null;
};

/** The interfaces of apps' networks on the machine, for the firewall. */
export const bridges = { prefix: "slb", range: subnetsRange };

type Owner = Pick<ReplicaSpec, "appId" | "egressCidrs">;

/**
 * Tries to find a range of addresses that no other network of the engine has; nearly all are free.
 */
const triesMax = 30;
const idleMs = 600_000;
/** The option of a network that names its interface. */
const bridgeOption = "com.docker.network.bridge.name";

/** The networks of one installation. */
export class AppNetworks {
  readonly #options: AppNetworksOptions;
  /** The work in progress on a network, by name: creating and removing never overlap. */
  readonly #turns = new Map<string, Promise<void>>();
  readonly #usedAtMs = new Map<string, number>();

  constructor(options: AppNetworksOptions) {
    this.#options = options;
  }

  /** Knows again what apps may reach whose networks an earlier process of the platform has made. */
  async adopt(): Promise<void> {
    for (const { Labels = {}, Options } of await this.#listed()) {
      const bridge = Options?.[bridgeOption] as string | undefined;
      const egress = Labels[labels.egress];
      if (bridge === undefined || egress === undefined) continue;
      this.#options.firewall?.egress.set(bridge, JSON.parse(egress) as readonly string[]);
    }
  }

  /** The name of the app's network, which exists then and has its rules. */
  async ensure(owner: Owner): Promise<string> {
    const name = this.nameOf(owner);
    this.#usedAtMs.set(name, this.#options.clock.monotonicMs());
    await this.#inTurn(name, async () => {
      const { firewall } = this.#options;
      // Each time: somebody may have removed it.
      const createdInterface = await this.#interfaceOf(name);
      const bridge = createdInterface ?? this.#bridgeOf(owner);
      if (firewall !== null && owner.egressCidrs !== null)
        await limitEgress(firewall, bridge, owner.egressCidrs);
      if (createdInterface === undefined) await this.#create(owner);
      // Calls to the platform arrive at its loopback address. Without the right to write this they
      // are not possible. The engine makes the interface anew when the machine has restarted.
      await writeFile(`/proc/sys/net/ipv4/conf/${bridge}/route_localnet`, "1").catch(
        () => undefined,
      );
    });
    return name;
  }

  /** Removes networks that no replica has used for a while. */
  async removeIdle(usedNames: ReadonlySet<string | undefined>): Promise<void> {
    const { engine, clock, firewall } = this.#options;
    for (const { Id, Name, Options } of await this.#listed()) {
      const nowMs = clock.monotonicMs();
      if (usedNames.has(Name) || !this.#usedAtMs.has(Name)) this.#usedAtMs.set(Name, nowMs);
      if (nowMs - (this.#usedAtMs.get(Name) ?? nowMs) < idleMs) continue;
      this.#usedAtMs.delete(Name);
      const remove = async (): Promise<void> => {
        await unlessStatus([404], engine.calls.getNetwork(Id).remove());
        firewall?.egress.delete(Options?.[bridgeOption] as string);
      };
      // 403: a replica has just been started in it.
      await unlessStatus([403], this.#inTurn(Name, remove));
    }
  }

  /** Removes those without replicas, when nothing is going to start any more. */
  async removeUnused(): Promise<void> {
    for (const { Id } of await this.#listed()) {
      // 403: something is connected to it.
      await unlessStatus([403, 404], this.#options.engine.calls.getNetwork(Id).remove());
    }
  }

  /** The name of the network for such a replica. */
  nameOf({ appId, egressCidrs }: Owner): string {
    // No id of an app has a dot.
    const limits = egressCidrs === null ? "" : `.${hashOf(JSON.stringify(egressCidrs))}`;
    return `slipway-${this.#options.installation}-${appId}${limits}`;
  }

  #listed() {
    const filters = { label: [`${labels.instance}=${this.#options.installationId}`] };
    return this.#options.engine.calls.listNetworks({ filters });
  }

  /** At most 15 characters, as the kernel wants. */
  #bridgeOf({ appId, egressCidrs }: Owner): string {
    const { installation, names } = this.#options;
    const limits = egressCidrs === null ? "" : ` ${JSON.stringify(egressCidrs)}`;
    return `${bridges.prefix}${installation}${names("interface", `${appId}${limits}`).slice(0, 8)}`;
  }

  async #inTurn(name: string, act: () => Promise<unknown>): Promise<void> {
    const done = (this.#turns.get(name) ?? Promise.resolve()).then(act).then(() => undefined);
    const settled = done.catch(() => undefined);
    this.#turns.set(name, settled);
    await done.finally(() => {
      if (this.#turns.get(name) === settled) this.#turns.delete(name);
    });
  }

  /** Undefined: there is no such network. */
  async #interfaceOf(name: string): Promise<string | undefined> {
    const network = this.#options.engine.calls.getNetwork(name);
    const found = (await unlessStatus([404], network.inspect())) as NetworkInspectInfo | undefined;
    return found?.Options?.[bridgeOption];
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
          [bridgeOption]: this.#bridgeOf(owner),
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
        if (engineStatus(error) === 409) break;
        // The range of addresses is taken.
        if (!(error instanceof Error && error.message.includes("overlap")) || tries === triesMax)
          throw error;
      }
    }
  }
}

/**
 * How the installation is called in names of the networks that it has, see `installationOf`; null:
 * it has none. A platform with another data folder goes on with these names, so that the rules for
 * what runs stay in one table.
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

function hashOf(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, 8);
}

/** The interface of the network in which the engine runs builds; null: it has none. */
export async function defaultBridge({ calls }: Pick<Engine, "calls">): Promise<string | null> {
  const network = (await unlessStatus([404], calls.getNetwork("bridge").inspect())) as
    | NetworkInspectInfo
    | undefined;
  return network === undefined ? null : (network.Options?.[bridgeOption] ?? "docker0");
}
