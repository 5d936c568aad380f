// Isolates the steps of image builds from each other on the engine's default bridge, the only
// network that BuildKit can use. BuildKit gives steps raw sockets, with which a step could pose as
// the gateway and read what other steps send. While builds run, the firewall lets each step use
// only its own port of the bridge, its own network card and its own address, and drops what one
// step sends to another. Needs root and nft.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { isIPv4 } from "node:net";
import type { NetworkInspectInfo } from "dockerode";
import { isInstalled, runMachineTool } from "#drivers/app-firewall-machine.ts";
import { readText } from "#drivers/process/read-text.ts";
import type { Clock } from "#lib/clock.ts";
import type { Log } from "#lib/log.ts";
import { Loop } from "#lib/loop.ts";
import { defaultBridge } from "./app-networks.ts";
import { renewedWithinSeconds, segmentRules, type Port } from "./build-segment-rules.ts";
import type { Engine } from "./engine.ts";
import type { MachineFiles } from "./own-container.ts";

export type BuildSegmentOptions = {
  readonly engine: Pick<Engine, "calls">;
  readonly machine: MachineFiles;
  /** Distinguishes the rules of this installation; see `Firewall`. */
  readonly installation: string;
  readonly clock: Clock;
  readonly log: Log;
};

/**
 * Packets from a new port are dropped until the port has been identified. A step sends its first
 * packet about 20 ms after its port appears.
 */
const checkEveryMs = 20;
/** The form of a network card's address, such as `02:42:ac:11:00:02`. */
const macForm = /^[0-9a-f]{2}(?::[0-9a-f]{2}){5}$/;
/** How many network namespaces are read at once. */
const namespacesAtOnce = 8;
/**
 * A port that is still unidentified after this time is logged. The time is long because a busy
 * engine may create a port long before it gives the port's other end to the step.
 */
const unknownPortAfterMs = 30_000;
const unknownPortText =
  "a port of the engine's default bridge leads to no network namespace that the platform sees; its packets are dropped while images are built";
/** A quarter of the time after which the rules expire. */
const renewEveryMs = (renewedWithinSeconds * 1000) / 4;

/** An element of the output of `ip -json address`; some elements are empty objects. */
type Link = {
  /** The index of the interface at the other end. */
  readonly link_index?: number;
  readonly address?: string;
  readonly addr_info?: readonly { readonly local?: string }[];
};

/** The network of the steps of one installation's builds. */
export class BuildSegment {
  readonly #options: BuildSegmentOptions;
  /** How many builds have entered and not left. */
  #builds = 0;
  /** Undefined while no build runs, and where the engine has no default bridge. */
  #loop: Loop | undefined;
  /** The last start or stop; the next start or stop waits until it is done. */
  #lastChange: Promise<void> = Promise.resolve();
  /** The interface of the default bridge; empty until a build has found it. */
  #bridge = "";
  /** The bridge's ranges of addresses (CIDR). */
  #ranges: readonly string[] = [];
  /** The identified ports of build steps. */
  #steps: Port[] = [];
  /** The names of all other identified ports, such as those of containers. */
  readonly #others = new Set<string>();
  /** The engine's network namespaces whose cards have been read. */
  #readNamespaces = new Set<string>();
  /** When each unidentified port was first seen; infinite after it was logged. */
  readonly #seenAtMs = new Map<string, number>();
  /** When the rules were last set, by the monotonic clock. */
  #renewedAtMs = -Infinity;

  constructor(options: BuildSegmentOptions) {
    this.#options = options;
  }

  /**
   * Isolates the steps that begin from now on, until the returned function is called. Rejects when
   * the steps cannot be isolated.
   */
  async enter(): Promise<() => Promise<void>> {
    this.#builds++;
    try {
      await this.#afterLastChange(async () => {
        if (this.#loop === undefined) await this.#start();
      });
    } catch (error) {
      this.#builds--;
      throw error;
    }
    return async () => {
      this.#builds--;
      await this.#afterLastChange(async () => {
        if (this.#builds === 0) await this.#stop();
      });
    };
  }

  async #afterLastChange(change: () => Promise<void>): Promise<void> {
    const done = this.#lastChange.then(change);
    this.#lastChange = done.catch(() => undefined);
    await done;
  }

  async #start(): Promise<void> {
    const { engine, clock, log } = this.#options;
    const network = await networkOf(engine);
    // Without a default bridge the steps have no network at all.
    if (network === null) return;
    this.#bridge = network.bridge;
    this.#ranges = network.ranges;
    this.#steps = [];
    this.#others.clear();
    // No existing port is a step's: the steps of an earlier platform process ended together with
    // that process.
    for (const name of this.#ports()) this.#others.add(name);
    this.#readNamespaces = new Set(namespaces(this.#options.machine));
    await this.#renewRules();
    this.#loop = new Loop({
      name: "network of image builds",
      intervalMs: checkEveryMs,
      turn: () => this.#checkPorts(),
      clock,
      log,
    });
    this.#loop.start();
  }

  async #stop(): Promise<void> {
    await this.#loop?.stop();
    this.#loop = undefined;
    await removeTable(this.#options);
  }

  /** Identifies new ports, forgets those that are gone, and renews the rules when needed. */
  async #checkPorts(): Promise<void> {
    const nowMs = this.#options.clock.monotonicMs();
    const ports = new Set(this.#ports());
    const known = [...this.#others, ...this.#steps.map(({ name }) => name)];
    for (const name of known.filter((port) => !ports.has(port))) this.#forget(name);
    const unknown = [...ports].filter((name) => !known.includes(name));
    const isOneIdentified = unknown.length > 0 && (await this.#identify(unknown));
    // Makes the renewal of the rules due. If the renewal fails in this turn, it is still due in the
    // next turn.
    if (isOneIdentified) this.#renewedAtMs = -Infinity;
    const stillUnknown = unknown.filter((port) => !this.#isKnown(port));
    for (const name of stillUnknown) this.#warnOfUnknown(name, nowMs);
    if (nowMs - this.#renewedAtMs > renewEveryMs) await this.#renewRules();
  }

  /** Logs once that a port is not identified after `unknownPortAfterMs`. */
  #warnOfUnknown(name: string, nowMs: number): void {
    const seenAtMs = this.#seenAtMs.get(name) ?? nowMs;
    const isLate = nowMs - seenAtMs > unknownPortAfterMs;
    this.#seenAtMs.set(name, isLate ? Infinity : seenAtMs);
    if (isLate) this.#options.log.warn({ port: name }, unknownPortText);
  }

  #isKnown(name: string): boolean {
    return this.#others.has(name) || this.#steps.some((step) => step.name === name);
  }

  #forget(name: string): void {
    this.#others.delete(name);
    this.#steps = this.#steps.filter((step) => step.name !== name);
    this.#seenAtMs.delete(name);
  }

  /**
   * Finds out to which steps and containers the ports lead. True: it identified at least one port.
   */
  async #identify(names: readonly string[]): Promise<boolean> {
    const all = namespaces(this.#options.machine);
    this.#readNamespaces = new Set(all.filter((path) => this.#readNamespaces.has(path)));
    const unread = all.filter((path) => !this.#readNamespaces.has(path));
    const nameByIndex = new Map(names.map((name) => [indexOf(name), name]));
    let isOneFound = false;
    let containers: ReadonlySet<string> | null = null;
    // Begins at the end of the list, where the newest namespaces are: an old namespace that is
    // still unread belongs to another network.
    while (unread.length > 0 && nameByIndex.size > 0) {
      const paths = unread.splice(-namespacesAtOnce);
      const found = await Promise.all(
        paths.map(async (path) => ({ path, cards: await cardsIn(path) })),
      );
      // Ports may have appeared meanwhile. They must be found now, because a namespace whose cards
      // have been read is not read again.
      for (const name of this.#ports())
        if (!this.#isKnown(name)) nameByIndex.set(indexOf(name), name);
      for (const { path, cards } of found) {
        // A namespace without cards is read again: its card and addresses come a moment later.
        if (cards.length > 0) this.#readNamespaces.add(path);
        for (const { index, mac, addresses } of cards) {
          const name = nameByIndex.get(index);
          if (name === undefined) continue;
          nameByIndex.delete(index);
          isOneFound = true;
          containers ??= await addressesOfContainers(this.#options.engine);
          const isContainer = addresses.some((address) => containers?.has(address));
          if (isContainer) this.#others.add(name);
          else this.#steps.push({ name, mac, addresses });
        }
      }
    }
    return isOneFound;
  }

  async #renewRules(): Promise<void> {
    const ranges = this.#ranges;
    const steps = this.#steps;
    const others = [...this.#others];
    const rules = segmentRules({ table: tableOf(this.#options), ranges, steps, others });
    const failure = await runMachineTool(["nft", "-f", "-"], { input: rules });
    if (failure !== null) throw new Error(failure);
    this.#renewedAtMs = this.#options.clock.monotonicMs();
  }

  #ports(): string[] {
    return readdirSync(portsOf(this.#bridge));
  }
}

/**
 * Why steps cannot be isolated on this machine; null: they can. Removes rules that an earlier
 * platform process has left.
 */
export async function segmentObstacle(
  options: Pick<BuildSegmentOptions, "engine" | "installation">,
): Promise<string | null> {
  if (!isInstalled("nsenter")) return "there is no nsenter";
  const bridge = await defaultBridge(options.engine);
  if (bridge !== null && !existsSync(portsOf(bridge)))
    return `the engine's bridge ${bridge} is not on this machine`;
  // Tries the rules with facts that harm nobody.
  const facts = { ranges: ["127.0.0.1/32"], others: ["lo"] };
  const steps = [{ name: "lo", mac: "02:00:00:00:00:01", addresses: ["127.0.0.1"] }];
  const rules = segmentRules({ table: tableOf(options), ...facts, steps });
  const failure = await runMachineTool(["nft", "-f", "-"], { input: rules });
  await removeTable(options);
  return failure;
}

async function removeTable(options: Pick<BuildSegmentOptions, "installation">): Promise<void> {
  // A failure is ignored: another program may have flushed the machine's rules.
  await runMachineTool(["nft", "delete", "table", "bridge", tableOf(options)]);
}

function tableOf({ installation }: Pick<BuildSegmentOptions, "installation">): string {
  return `slipway_${installation}`;
}

/** The default bridge and its IPv4 ranges; null: the engine has no default bridge. */
async function networkOf(
  engine: Pick<Engine, "calls">,
): Promise<{ readonly bridge: string; readonly ranges: readonly string[] } | null> {
  const bridge = await defaultBridge(engine);
  if (bridge === null) return null;
  const { IPAM } = (await engine.calls.getNetwork("bridge").inspect()) as NetworkInspectInfo;
  // Only IPv6 ranges contain a colon.
  const ranges = (IPAM?.Config ?? []).flatMap(({ Subnet = "" }) =>
    Subnet.includes(":") ? [] : [Subnet],
  );
  return { bridge, ranges };
}

/**
 * The addresses of containers on the default bridge. The engine lists build steps there too, but
 * under a name from BuildKit instead of a container's id.
 */
async function addressesOfContainers({
  calls,
}: Pick<Engine, "calls">): Promise<ReadonlySet<string>> {
  const { Containers = {} } = (await calls.getNetwork("bridge").inspect()) as NetworkInspectInfo;
  const found = Object.entries(Containers).filter(([id]) => /^[0-9a-f]{64}$/.test(id));
  // The engine adds the length of the network's prefix: `172.17.0.2/16`.
  return new Set(found.map(([, { IPv4Address }]) => IPv4Address.replace(/\/.*/, "")));
}

/** The paths of the network namespaces of the engine's containers and steps, oldest first. */
function namespaces({ root, mountinfo }: MachineFiles): string[] {
  const lines = readFileSync(mountinfo, "utf8").split("\n");
  // The file system of a namespace is `nsfs`, named after " - "; the fifth field is its path.
  return lines
    .filter((line) => / - nsfs /.test(line))
    .map((line) => join(root, line.split(" ")[4] ?? ""));
}

/** A folder with an entry for each port of the bridge. */
function portsOf(bridge: string): string {
  return join("/sys/class/net", bridge, "brif");
}

function indexOf(name: string): number {
  return Number(readText(join("/sys/class/net", name, "ifindex")));
}

/** A network card in a namespace. */
type Card = {
  /** The index of the interface at the card's other end, the port. */
  readonly index: number;
  readonly mac: string;
  readonly addresses: readonly string[];
};

/**
 * The cards in a namespace that have an address. `ip` reads the cards first and the addresses next.
 * If the engine sets both in between, the output has the new address with the old MAC. So the cards
 * are read a second time once a card has an address.
 */
async function cardsIn(path: string): Promise<readonly Card[]> {
  const cards = await readCards(path);
  return cards.length === 0 ? cards : await readCards(path);
}

async function readCards(path: string): Promise<readonly Card[]> {
  const lines: string[] = [];
  const failure = await runMachineTool(["nsenter", `--net=${path}`, "ip", "-json", "address"], {
    lines,
  });
  // The namespace does not exist yet, or not any more.
  if (failure !== null) return [];
  const links = JSON.parse(lines.join("")) as Link[];
  const cards = links.map((link) => {
    const locals = (link.addr_info ?? []).map(({ local = "" }) => local);
    const addresses = locals.filter((local) => isIPv4(local));
    return { index: link.link_index ?? 0, mac: link.address ?? "", addresses };
  });
  return cards.filter(
    ({ index, mac, addresses }) => index > 0 && macForm.test(mac) && addresses.length > 0,
  );
}
