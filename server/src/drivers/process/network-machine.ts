// The machine's side of replica networks (see `network.ts`): detects whether they are possible, and
// manages the machine's rules for them. Called at the platform's start and end.
import { readFileSync } from "node:fs";
import { readFile, readdir, writeFile } from "node:fs/promises";
import { installationOf } from "#drivers/app-firewall.ts";
import {
  isInstalled,
  machineNameServers,
  removeFirewall,
  runMachineTool,
} from "#drivers/app-firewall-machine.ts";
import * as networks from "./network.ts";
import { sandboxFailedCode } from "./sandbox.ts";

export type NetworkWish = {
  /** The data folder; identifies the installation. */
  readonly folder: string;
  /** `own`: networks are required; `auto`: used where possible; `shared`: not used. */
  readonly mode: "auto" | "own" | "shared";
  /** Private ranges (CIDR) that apps may reach. */
  readonly allowed: readonly string[];
  /** Empty: use the machine's name servers. */
  readonly nameServers: readonly string[];
};

const forwardingFile = "/proc/sys/net/ipv4/ip_forward";

/**
 * Detects whether replicas can have networks of their own. `attempt` runs a program in such a
 * network and returns the problem, or null. The caller is root.
 */
export async function detectNetwork(
  wish: NetworkWish,
  attempt: (network: networks.OwnNetwork) => Promise<string | null>,
): Promise<networks.Network> {
  if (wish.mode === "shared") return { kind: "shared", reason: "SLIPWAY_APP_NETWORK is shared" };
  const hasOwnServers = wish.nameServers.length > 0;
  const nameServers = hasOwnServers ? wish.nameServers : await machineNameServers();
  const network: networks.OwnNetwork = {
    kind: "own",
    installation: installationOf(wish.folder),
    links: networks.cables,
    allowed: wish.allowed,
    egress: new Map(),
    buildBridge: null,
    nameServers,
    platform: null,
  };
  const missing = Object.keys(packages).find((tool) => !isInstalled(tool));
  if (missing !== undefined) {
    return {
      kind: "shared",
      reason: `the program ${missing} is missing (package ${packages[missing]})`,
    };
  }
  const isUsed = await hasCables(network);
  let failure = await enableForwarding();
  if (failure === null) failure = await passFirewall();
  if (failure === null) failure = await attempt(network);
  // Remove the rules that the attempt added, unless replicas use them. Each later run of a program
  // adds rules that are missing.
  if (!isUsed) await removeFirewall(network);
  return failure === null ? network : { kind: "shared", reason: failure };
}

/** The programs that networks need, each with the package that has it. */
const packages: Readonly<Record<string, string>> = {
  ip: "iproute2",
  nft: "nftables",
  nsenter: "util-linux",
};

/** A network for one run, and the shell lines that connect it. */
export type ConnectedNetwork = {
  readonly address: networks.NetworkAddress;
  readonly setup: string;
};

/**
 * Chooses the address of a run. `hasServer`: the run has a web server, which may listen on any
 * address of its network, even only on the loopback address. Throws when no address is free.
 */
export function connectNetwork(network: networks.OwnNetwork, hasServer: boolean): ConnectedNetwork {
  const address = networks.chooseAddress(network, readFileSync("/proc/net/route", "utf8"));
  if (address === null) throw new Error("no address is free for another network on this machine");
  const setup = networks.networkSetup(network, address, {
    platform: process.pid,
    exitCode: sandboxFailedCode,
  });
  return {
    address,
    setup: hasServer ? setup + networks.redirectToLoopback(address, sandboxFailedCode) : setup,
  };
}

/** True when this machine has cables of the installation, which belong to its replicas. */
async function hasCables({ installation }: networks.OwnNetwork): Promise<boolean> {
  return (await readdir("/sys/class/net")).some((name) =>
    name.startsWith(networks.linkPrefix + installation),
  );
}

/** Makes the kernel forward traffic between apps and the internet; returns the problem, or null. */
async function enableForwarding(): Promise<string | null> {
  if ((await readFile(forwardingFile, "utf8")).trim() === "1") return null;
  return writeFile(forwardingFile, "1").then(
    () => null,
    (error: NodeJS.ErrnoException) =>
      `packets cannot be forwarded (${forwardingFile}: ${error.code})`,
  );
}

/**
 * Lets the traffic of apps pass other firewalls; returns the problem, or null. Docker and ufw drop
 * all foreign forwarded traffic through the policy of a chain shared by all iptables firewalls. Our
 * own chains still decide what passes.
 */
async function passFirewall(): Promise<string | null> {
  const chain = ["ip", "filter", "FORWARD"] as const;
  const lines: string[] = [];
  const listProblem = await runMachineTool(["nft", "list", "chain", ...chain], { lines });
  // There is no such chain, so nothing drops the traffic.
  if (listProblem !== null) return null;
  const text = lines.join("\n");
  // An earlier platform may have inserted the rules.
  if (!text.includes("policy drop") || text.includes(`"${networks.linkPrefix}*"`)) return null;
  const insert = ["nft", "insert", "rule", ...chain] as const;
  // The first rule lets packets of apps out, and this one lets the answers to them in.
  const answers = [
    "oifname",
    `"${networks.linkPrefix}*"`,
    "ct",
    "state",
    "established,related",
    "accept",
  ] as const;
  // Each insertion returns its problem, or null; the second one follows when the first succeeded.
  return (
    (await runMachineTool([...insert, "iifname", `"${networks.linkPrefix}*"`, "accept"])) ??
    runMachineTool([...insert, ...answers])
  );
}
