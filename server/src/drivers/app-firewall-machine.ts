// Puts the firewall rules for networks of apps in force on this machine. This needs root and `nft`.
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { isIPv4 } from "node:net";
import { join } from "node:path";
import type { Log } from "#lib/log.ts";
import {
  chainOfLink,
  firewallRules,
  firewallTableOf,
  limitRules,
  type Firewall,
} from "./app-firewall.ts";
import { StartRefused } from "./driver.ts";
import { commandFailure, toolsEnvironment } from "./short-command.ts";

/**
 * Applies the machine's rules, and replaces the rules of an earlier process of the platform.
 * Returns null, or why they could not be applied.
 */
async function applyFirewall(firewall: Firewall): Promise<string | null> {
  return inTurn(firewall, () => firewallRules(firewall));
}

/**
 * Limits what is sent through an interface from now on; throws `StartRefused` when the rules cannot
 * be set.
 */
export async function limitEgress(
  firewall: Firewall,
  link: string,
  cidrs: readonly string[],
): Promise<void> {
  if (firewall.egress.has(link)) return;
  firewall.egress.set(link, cidrs);
  const failure = await inTurn(firewall, () => limitRules(firewall, link));
  if (failure === null) return;
  firewall.egress.delete(link);
  throw rulesNotSet(failure);
}

/** The latest change of the rules of each firewall. */
const turns = new WeakMap<Firewall, Promise<string | null>>();

/** Sets rules one change at a time, so that rules computed earlier never replace newer ones. */
async function inTurn(firewall: Firewall, rules: () => string): Promise<string | null> {
  const previous = turns.get(firewall) ?? Promise.resolve(null);
  const turn = previous.then(() => runMachineTool(["nft", "-f", "-"], { input: rules() }));
  turns.set(firewall, turn);
  return turn;
}

function rulesNotSet(failure: string): StartRefused {
  return new StartRefused("The rules for what the app may reach could not be set on its machine.", {
    cause: failure,
  });
}

/**
 * Restores the rules if another program that configures the firewall removed them. Returns true
 * when they were still there. Rejects with `StartRefused` when they cannot be set.
 */
export async function keepFirewall(firewall: Firewall): Promise<boolean> {
  const table = firewallTableOf(firewall);
  const { buildBridge } = firewall;
  // A platform with other settings may have left the table, but without this chain.
  const rules =
    buildBridge === null
      ? ["table", "inet", table]
      : ["chain", "inet", table, chainOfLink(buildBridge)];
  if ((await runMachineTool(["nft", "list", ...rules])) === null) return true;
  const failure = await applyFirewall(firewall);
  if (failure !== null) throw rulesNotSet(failure);
  return false;
}

/** Removes the machine's rules; call it when no replica of the installation is running. */
export async function removeFirewall(firewall: Firewall): Promise<void> {
  await runMachineTool(["nft", "delete", "table", "inet", firewallTableOf(firewall)]);
}

/**
 * Returns the machine's IPv4 name servers that apps can reach. When the machine's only resolver is
 * on a loopback address, systemd's file lists the servers behind it.
 */
export async function machineNameServers(): Promise<string[]> {
  for (const path of ["/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"]) {
    const text = await readFile(path, "utf8").catch(() => "");
    const servers = [...text.matchAll(/^\s*nameserver\s+(\S+)/gm)].map(([, server = ""]) => server);
    const usable = servers.filter((server) => isIPv4(server) && !server.startsWith("127."));
    if (usable.length > 0) return usable;
  }
  return [];
}

/**
 * Runs a program of the machine. Returns null on success, else the first line of its output, or how
 * it ended. Its output is appended to `lines`. `input` consists of whole lines, of which none is
 * `END`.
 */
export async function runMachineTool(
  command: readonly [string, ...string[]],
  { input, lines = [] }: { readonly input?: string; readonly lines?: string[] } = {},
): Promise<string | null> {
  const script = input === undefined ? 'exec "$@"' : `"$@" <<'END'\n${input}END\n`;
  const shell = ["/bin/sh", "-c", script, "sh", ...command] as const;
  return commandFailure({ command: shell, cwd: "/", environment: toolsEnvironment }, lines);
}

/** Whether the program is in one of the folders of the machine's own tools. */
export function isInstalled(tool: string): boolean {
  return toolsEnvironment.PATH.split(":").some((folder) => existsSync(join(folder, tool)));
}

/** Where the platform can be called. */
export type Reachable = { readonly host: string; readonly publicUrl: string | null };

/** Lets apps call the platform, which listens on `port`. Does nothing without a firewall. */
export async function letAppsCall(
  firewall: Firewall | null,
  { config, port, log }: { readonly config: Reachable; readonly port: number; readonly log: Log },
): Promise<void> {
  if (firewall === null) return;
  // With one of these hosts, the platform listens on the loopback address, too.
  const isOnLoopback = ["0.0.0.0", "::", "localhost"].includes(config.host);
  firewall.platform = {
    host: isOnLoopback ? "127.0.0.1" : config.host,
    ports: portsOf(config, port),
  };
  const failure = await applyFirewall(firewall);
  if (failure !== null)
    log.error({ reason: failure }, "the rules of apps' networks could not be put in force");
}

/** The platform's own port, and the port of a proxy in front of it on this machine. */
function portsOf({ publicUrl }: Reachable, port: number): number[] {
  const url = publicUrl === null ? null : URL.parse(publicUrl);
  if (url === null) return [port];
  // A URL without a port, or with the default port of its protocol, has the port "".
  const defaultPort = url.protocol === "https:" ? 443 : 80;
  const publicPort = url.port === "" ? defaultPort : Number(url.port);
  return publicPort === port ? [port] : [port, publicPort];
}
