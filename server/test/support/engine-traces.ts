// What a test's Docker engine has on the machine outside its folder: a bridge, networks, firewall
// rules, control groups. Made and removed without touching those of another engine.
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, rmdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { isAlive } from "./is-alive.ts";
import { until } from "./until.ts";

/** Where Debian has the programs of the engine; /usr/local/bin may have another client. */
export const enginePath = "/usr/sbin:/usr/bin:/sbin:/bin";

/** The names and addresses of one engine. */
export type EngineNetwork = {
  /** The name of the engine's control groups and of its part of containerd. */
  readonly name: string;
  readonly bridge: string;
  /** The machine's address at the bridge. */
  readonly address: string;
  /** The first two numbers of all its addresses, with a dot behind them. */
  readonly prefix: string;
  /** Addresses for networks that tests make. */
  readonly pool: string;
  /** The engine's key was there before. */
  readonly hadKey: boolean;
};

/** Bridges are named after the process that makes them. */
const bridgePrefix = "slpt";
const namePrefix = "slipway-test-";
const groupsRoot = "/sys/fs/cgroup";
/** The old engine writes its key there, wherever its data is. */
const keyFile = "/etc/docker/key.json";

/** Makes the bridge of an engine; one that has worked in the folder before gets the same. */
export async function makeBridge(folder: string): Promise<EngineNetwork> {
  const file = join(folder, "network.json");
  if (existsSync(file)) return JSON.parse(readFileSync(file, "utf8")) as EngineNetwork;
  await removeTracesOfTheDead();
  const range = freeRange();
  const bridge = `${bridgePrefix}${process.pid}x${range}`;
  const address = `10.${range}.0.1`;
  ip("link", "add", "name", bridge, "type", "bridge");
  ip("addr", "add", `${address}/24`, "dev", bridge);
  ip("link", "set", bridge, "up");
  const names = { name: `${namePrefix}${bridge}`, bridge, address };
  const network = {
    ...names,
    prefix: `10.${range}.`,
    pool: `10.${range}.128.0/17`,
    hadKey: existsSync(keyFile),
  };
  writeFileSync(file, JSON.stringify(network));
  return network;
}

/** Removes all that an ended engine has left outside its folder. */
export async function removeTraces(folder: string, network: EngineNetwork): Promise<void> {
  for (const mount of mountsBelow(folder)) spawnSync("umount", ["--lazy", mount]);
  removeRange(network.prefix);
  await removeGroups(network.name);
  rmSync(join(folder, "network.json"), { force: true });
  if (!network.hadKey && !hasOtherEngine()) rmSync(keyFile, { force: true });
}

/** Ends what runs from the folder, as containerd after the engine was killed. */
export async function endProcessesBelow(folder: string): Promise<void> {
  await end(() => pids().filter((pid) => commandOf(pid).includes(`${folder}/`)));
}

async function end(findPids: () => number[]): Promise<void> {
  await until("nothing of the engine runs", () => {
    const left = findPids();
    for (const pid of left) spawnSync("kill", ["-KILL", String(pid)]);
    return left.length === 0;
  });
}

/** The second number of addresses that no route of the machine leads to. */
function freeRange(): number {
  const routes = ip("-4", "route", "show", "table", "all");
  // Few networks are numbered so high; below are those of apps (`bridges` in app-networks.ts),
  // which a firewall keeps to itself. Where to begin differs, since two runs may start at once.
  const numbers = Array.from({ length: 16 }, (_, index) => 224 + ((process.pid + index) % 16));
  const free = numbers.find((number) => !new RegExp(`\\b10\\.${number}\\.`).test(routes));
  if (free === undefined)
    throw new Error("no range of addresses is free for an engine: all from 10.224 on are used");
  return free;
}

/** Removes the traces of engines whose test run was killed. */
async function removeTracesOfTheDead(): Promise<void> {
  const names = [
    ...readdirSync("/sys/class/net"),
    ...readdirSync(groupsRoot),
    ...groupsOfVersion1(),
  ];
  for (const name of new Set(names)) {
    const [, bridge, pid, range] =
      new RegExp(`^(?:${namePrefix})?(${bridgePrefix}(\\d+)x(\\d+))$`).exec(name) ?? [];
    if (pid === undefined || isAlive(Number(pid))) continue;
    // Without its bridge, the addresses may be another engine's by now.
    if (existsSync(`/sys/class/net/${bridge}`)) removeRange(`10.${range}.`);
    await removeGroups(`${namePrefix}${bridge}`);
  }
}

function groupsOfVersion1(): string[] {
  const memory = join(groupsRoot, "memory");
  return existsSync(memory) ? readdirSync(memory) : [];
}

/** Removes bridges with addresses of the range, and firewall rules that name them. */
function removeRange(prefix: string): void {
  const devices = JSON.parse(ip("-json", "-4", "addr", "show")) as {
    readonly ifname: string;
    readonly addr_info: readonly { readonly local?: string }[];
  }[];
  const own = devices.filter(({ addr_info }) =>
    addr_info.some(({ local = "" }) => local.startsWith(prefix)),
  );
  const words = [...own.map(({ ifname }) => ifname), prefix];
  for (const table of ["filter", "nat", "raw"]) {
    const rules = iptables(table, "-S").split("\n");
    for (const rule of rules.filter(
      (one) => one.startsWith("-A ") && words.some((word) => one.includes(word)),
    )) {
      iptables(table, "-D", ...rule.slice("-A ".length).split(" "));
    }
    if (!hasOtherEngine()) removeChains(table, rules);
  }
  for (const { ifname } of own) ip("link", "delete", ifname);
}

/** The chains that every engine shares; the next one makes them again. */
function removeChains(table: string, rules: readonly string[]): void {
  for (const rule of rules.filter((one) => /^-A (?!DOCKER).* -j DOCKER/.test(one))) {
    iptables(table, "-D", ...rule.slice("-A ".length).split(" "));
  }
  const chains = rules.flatMap((rule) => /^-N (DOCKER\S*)/.exec(rule)?.[1] ?? []);
  for (const chain of chains) iptables(table, "-F", chain);
  for (const chain of chains) iptables(table, "-X", chain);
}

function hasOtherEngine(): boolean {
  return pids().some((pid) => /^(?:\S*\/)?dockerd\0/.test(commandOf(pid)));
}

/** With containers in them that an engine did not end, since it was killed. */
async function removeGroups(name: string): Promise<void> {
  await end(() => groupsOf(name).flatMap(processesIn));
  for (const group of groupsOf(name)) rmdirSync(group);
}

/** Folders of an engine's control groups, inner ones first. */
function groupsOf(name: string): string[] {
  const below = (group: string): string[] => {
    if (!existsSync(group)) return [];
    const inner = readdirSync(group, { withFileTypes: true }).filter((one) => one.isDirectory());
    return [...inner.flatMap((one) => below(join(group, one.name))), group];
  };
  return ["", ...readdirSync(groupsRoot)].flatMap((parent) =>
    below(join(groupsRoot, parent, name)),
  );
}

function processesIn(group: string): number[] {
  return readFileSync(join(group, "cgroup.procs"), "utf8").split("\n").filter(Boolean).map(Number);
}

function mountsBelow(folder: string): string[] {
  const paths = readFileSync("/proc/self/mounts", "utf8")
    .split("\n")
    .map((line) => line.split(" ")[1] ?? "");
  return paths.filter((path) => path.startsWith(`${folder}/`)).toReversed();
}

function pids(): number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number);
}

function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8");
  } catch {
    return "";
  }
}

function ip(...parameters: string[]): string {
  return execFileSync("ip", parameters, {
    encoding: "utf8",
    env: { PATH: enginePath },
    stdio: "pipe",
  });
}

/** Returns its output, empty when the table is not there. A rule may already be gone. */
function iptables(table: string, ...parameters: string[]): string {
  const command = ["--wait", "--table", table, ...parameters];
  return spawnSync("iptables", command, { encoding: "utf8", env: { PATH: enginePath } }).stdout;
}
