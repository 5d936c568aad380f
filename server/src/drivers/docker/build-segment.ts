// Keeps the steps of builds apart on the network in which the engine runs them, its default bridge.
// BuildKit can use no other, and gives steps raw sockets: one could say that it is the gateway, and
// read what its neighbours send. While builds run, the builder has each step bound to its port,
// card and address, and closed to its neighbours. Needs root and nft.
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

export type BuildSegmentOptions = {
  readonly engine: Pick<Engine, "calls">;
  /** See `Firewall`. */
  readonly installation: string;
  readonly clock: Clock;
  readonly log: Log;
};

/**
 * A new port is not heard until it has been looked at, and a step's first packet comes some 20 ms
 * after its port.
 */
const lookEveryMs = 20;
const macForm = /^[0-9a-f]{2}(?::[0-9a-f]{2}){5}$/;
/** Network namespaces are looked at in groups. */
const atOnceMax = 8;
/**
 * An engine that has much to do makes a step's network and then needs a while until the step has
 * it.
 */
const strangeAfterMs = 30_000;
const strangePort =
  "what is at this port of the engine's default bridge is in no network namespace that the platform sees: it is not heard until no image is being built";
const renewEveryMs = (renewedWithinSeconds * 1000) / 4;

/** A line of `ip -json address`; some are empty objects. */
type Link = {
  readonly link_index?: number;
  readonly address?: string;
  readonly addr_info?: readonly { readonly local?: string }[];
};

/** The network of the steps of one installation's builds. */
export class BuildSegment {
  readonly #options: BuildSegmentOptions;
  #builds = 0;
  #loop: Loop | undefined;
  #turn: Promise<void> = Promise.resolve();
  #bridge = "";
  #ranges: readonly string[] = [];
  #steps: Port[] = [];
  readonly #others = new Set<string>();
  /** Network namespaces of the engine that have been looked at. */
  #namespaces = new Set<string>();
  readonly #seenAtMs = new Map<string, number>();
  #renewedAtMs = -Infinity;

  constructor(options: BuildSegmentOptions) {
    this.#options = options;
  }

  /**
   * Steps that begin from now on are kept apart, until the function that it returns is called.
   * Rejects when they cannot be.
   */
  async enter(): Promise<() => Promise<void>> {
    this.#builds++;
    try {
      await this.#inTurn(() => (this.#loop === undefined ? this.#start() : Promise.resolve()));
    } catch (error) {
      this.#builds--;
      throw error;
    }
    return async () => {
      this.#builds--;
      await this.#inTurn(() => (this.#builds === 0 ? this.#stop() : Promise.resolve()));
    };
  }

  async #inTurn(act: () => Promise<void>): Promise<void> {
    const turn = this.#turn.then(act);
    this.#turn = turn.catch(() => undefined);
    await turn;
  }

  async #start(): Promise<void> {
    const { engine, clock, log } = this.#options;
    const found = await networkOf(engine);
    // Without such a network no step has one.
    if (found === null) return;
    this.#bridge = found.bridge;
    this.#ranges = found.ranges;
    this.#steps = [];
    this.#others.clear();
    // Steps of an earlier process of the platform have ended with it.
    for (const name of this.#ports()) this.#others.add(name);
    this.#namespaces = new Set(namespaces());
    await this.#renew();
    const turn = (): Promise<void> => this.#look();
    this.#loop = new Loop({
      name: "network of image builds",
      intervalMs: lookEveryMs,
      turn,
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

  async #look(): Promise<void> {
    const nowMs = this.#options.clock.monotonicMs();
    const ports = new Set(this.#ports());
    const known = [...this.#others, ...this.#steps.map(({ name }) => name)];
    for (const name of known.filter((one) => !ports.has(one))) this.#forget(name);
    const fresh = [...ports].filter((name) => !known.includes(name));
    if (fresh.length > 0 && (await this.#tell(fresh))) this.#renewedAtMs = -Infinity;
    for (const name of fresh.filter((one) => !this.#isKnown(one))) this.#warn(name, nowMs);
    if (nowMs - this.#renewedAtMs > renewEveryMs) await this.#renew();
  }

  #warn(name: string, nowMs: number): void {
    const seenAtMs = this.#seenAtMs.get(name) ?? nowMs;
    const isLate = nowMs - seenAtMs > strangeAfterMs;
    this.#seenAtMs.set(name, isLate ? Infinity : seenAtMs);
    if (isLate) this.#options.log.warn({ port: name }, strangePort);
  }

  #isKnown(name: string): boolean {
    return this.#others.has(name) || this.#steps.some((one) => one.name === name);
  }

  #forget(name: string): void {
    this.#others.delete(name);
    this.#steps = this.#steps.filter((one) => one.name !== name);
    this.#seenAtMs.delete(name);
  }

  /** Finds out what is at these ports; true when it was found for one. */
  async #tell(names: readonly string[]): Promise<boolean> {
    const all = namespaces();
    this.#namespaces = new Set(all.filter((path) => this.#namespaces.has(path)));
    const unseen = all.filter((path) => !this.#namespaces.has(path));
    const indexes = new Map(names.map((name) => [indexOf(name), name]));
    let isFound = false;
    let containers: ReadonlySet<string> | null = null;
    // The newest first: those of other networks are not looked at again and again.
    while (unseen.length > 0 && indexes.size > 0) {
      const paths = unseen.splice(-atOnceMax);
      const ends = await Promise.all(
        paths.map(async (path) => ({ path, cards: await cardsIn(path) })),
      );
      // A port is on the bridge before its card has an address: what has come since is found now,
      // as its namespace is not looked at again.
      for (const name of this.#ports()) if (!this.#isKnown(name)) indexes.set(indexOf(name), name);
      for (const { path, cards } of ends) {
        // A card and its addresses come a moment after the namespace.
        if (cards.length > 0) this.#namespaces.add(path);
        for (const { index, mac, addresses } of cards) {
          const name = indexes.get(index);
          if (name === undefined) continue;
          indexes.delete(index);
          isFound = true;
          containers ??= await addressesOfContainers(this.#options.engine);
          if (addresses.some((one) => containers?.has(one))) this.#others.add(name);
          else this.#steps.push({ name, mac, addresses });
        }
      }
    }
    return isFound;
  }

  async #renew(): Promise<void> {
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
 * Why steps cannot be kept apart here; null: they can. Removes rules that an earlier process of the
 * platform has left.
 */
export async function segmentObstacle(
  options: Pick<BuildSegmentOptions, "engine" | "installation">,
): Promise<string | null> {
  if (!isInstalled("nsenter")) return "there is no nsenter";
  const bridge = await defaultBridge(options.engine);
  if (bridge !== null && !existsSync(portsOf(bridge)))
    return `the engine's bridge ${bridge} is not on this machine`;
  const facts = { ranges: ["127.0.0.1/32"], others: ["lo"] };
  const steps = [{ name: "lo", mac: "02:00:00:00:00:01", addresses: ["127.0.0.1"] }];
  const rules = segmentRules({ table: tableOf(options), ...facts, steps });
  const failure = await runMachineTool(["nft", "-f", "-"], { input: rules });
  await removeTable(options);
  return failure;
}

async function removeTable(options: Pick<BuildSegmentOptions, "installation">): Promise<void> {
  // Another program may have flushed the machine's rules.
  await runMachineTool(["nft", "delete", "table", "bridge", tableOf(options)]);
}

function tableOf({ installation }: Pick<BuildSegmentOptions, "installation">): string {
  return `slipway_${installation}`;
}

async function networkOf(
  engine: Pick<Engine, "calls">,
): Promise<{ readonly bridge: string; readonly ranges: readonly string[] } | null> {
  const bridge = await defaultBridge(engine);
  if (bridge === null) return null;
  const { IPAM } = (await engine.calls.getNetwork("bridge").inspect()) as NetworkInspectInfo;
  const ranges = (IPAM?.Config ?? []).flatMap(({ Subnet = "" }) =>
    Subnet.includes(":") ? [] : [Subnet],
  );
  return { bridge, ranges };
}

/**
 * Addresses of containers on the default bridge. What else is there has a name of BuildKit's in
 * place of a container's id.
 */
async function addressesOfContainers({
  calls,
}: Pick<Engine, "calls">): Promise<ReadonlySet<string>> {
  const { Containers = {} } = (await calls.getNetwork("bridge").inspect()) as NetworkInspectInfo;
  const found = Object.entries(Containers).filter(([id]) => /^[0-9a-f]{64}$/.test(id));
  return new Set(found.map(([, { IPv4Address }]) => IPv4Address.replace(/\/.*/, "")));
}

/** Where the engine has the network namespaces of containers and steps. */
function namespaces(): string[] {
  const lines = readFileSync("/proc/self/mountinfo", "utf8").split("\n");
  return lines.filter((line) => / - nsfs /.test(line)).map((line) => line.split(" ")[4] ?? "");
}

/** A folder with an entry for each port of the bridge. */
function portsOf(bridge: string): string {
  return join("/sys/class/net", bridge, "brif");
}

function indexOf(name: string): number {
  return Number(readText(join("/sys/class/net", name, "ifindex")));
}

/** A network card in a namespace; `index`: of the interface at its other end. */
type Card = {
  readonly index: number;
  readonly mac: string;
  readonly addresses: readonly string[];
};

/**
 * The cards in a namespace that have an address. `ip` asks the kernel for cards first, then for
 * addresses, and the engine gives a card its MAC and then its address, perhaps between the two:
 * what is true is what is read once there is an address.
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
  // It is not there yet, or not any more.
  if (failure !== null) return [];
  const links = JSON.parse(lines.join("")) as Link[];
  const cards = links.map(({ link_index: index = 0, address: mac = "", addr_info: given = [] }) => {
    const addresses = given.flatMap(({ local = "" }) => (isIPv4(local) ? [local] : []));
    return { index, mac, addresses };
  });
  return cards.filter(
    ({ index, mac, addresses }) => index > 0 && macForm.test(mac) && addresses.length > 0,
  );
}
