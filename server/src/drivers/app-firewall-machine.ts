// Puts the firewall rules for networks of apps in force on this machine, with `nft`. The platform
// is root.
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

/** Applies the machine's rules, replacing those that an earlier process of the platform left. */
export async function applyFirewall(firewall: Firewall): Promise<string | null> {
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
  throw notSet(failure);
}

const turns = new WeakMap<Firewall, Promise<string | null>>();

/** One after the other: rules that were made before others were added must not replace them. */
async function inTurn(firewall: Firewall, rules: () => string): Promise<string | null> {
  const before = turns.get(firewall) ?? Promise.resolve(null);
  const turn = before.then(() => runMachineTool(["nft", "-f", "-"], { input: rules() }));
  turns.set(firewall, turn);
  return turn;
}

function notSet(failure: string): StartRefused {
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
  // A platform with other settings has left a table without the chain.
  const rules =
    buildBridge === null
      ? ["table", "inet", table]
      : ["chain", "inet", table, chainOfLink(buildBridge)];
  if ((await runMachineTool(["nft", "list", ...rules])) === null) return true;
  const failure = await applyFirewall(firewall);
  if (failure !== null) throw notSet(failure);
  return false;
}

/** Removes the machine's rules; call it when no replica of the installation is running. */
export async function removeFirewall(firewall: Firewall): Promise<void> {
  await runMachineTool(["nft", "delete", "table", "inet", firewallTableOf(firewall)]);
}

/**
 * Apps cannot reach a resolver on the loopback address; systemd's file lists the upstream servers.
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

/** Null on success, else the first line of output. `lines` receives the output. */
export async function runMachineTool(
  command: readonly [string, ...string[]],
  { input, lines = [] }: { readonly input?: string; readonly lines?: string[] } = {},
): Promise<string | null> {
  const script = input === undefined ? 'exec "$@"' : `"$@" <<'END'\n${input}END\n`;
  const shell = ["/bin/sh", "-c", script, "sh", ...command] as const;
  return commandFailure({ command: shell, cwd: "/", environment: toolsEnvironment }, lines);
}

/** True when the program is where the machine's own tools are. */
export function isInstalled(tool: string): boolean {
  return toolsEnvironment.PATH.split(":").some((folder) => existsSync(join(folder, tool)));
}

/** Where the platform can be called. */
export type Reachable = { readonly host: string; readonly publicUrl: string | null };

/** Lets apps call the platform, which listens on this port. Null: there are no rules. */
export async function letAppsCall(
  firewall: Firewall | null,
  { config, port, log }: { readonly config: Reachable; readonly port: number; readonly log: Log },
): Promise<void> {
  if (firewall === null) return;
  const isEveryAddress = ["0.0.0.0", "::", "localhost"].includes(config.host);
  firewall.platform = {
    host: isEveryAddress ? "127.0.0.1" : config.host,
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
  const publicPort = Number(url.port || (url.protocol === "https:" ? 443 : 80));
  return publicPort === port ? [port] : [port, publicPort];
}
