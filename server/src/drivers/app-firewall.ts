// The machine's firewall rules for networks of apps, whichever driver makes the networks: apps can
// reach the internet and the platform, but nothing else on the machine, in other apps or in private
// networks. Pure.
import { createHash } from "node:crypto";
import { isIPv4 } from "node:net";

/** What the rules of one installation depend on. */
export type Firewall = {
  /**
   * Four hexadecimal digits that distinguish this installation's interfaces and rules from those of
   * other installations.
   */
  readonly installation: string;
  /**
   * The names of the driver's interfaces begin with `prefix` and the installation; apps have
   * addresses from `range` (CIDR).
   */
  readonly links: { readonly prefix: string; readonly range: string };
  /** Private ranges (CIDR) that apps may reach despite the rules. */
  readonly allowed: readonly string[];
  /** Name servers for apps. */
  readonly nameServers: readonly string[];
  /**
   * For each interface of an app with the setting egressCidrs, the ranges (CIDR) that the app may
   * reach, as far as the other rules let it.
   */
  readonly egress: Map<string, readonly string[]>;
  /**
   * The engine's bridge for image builds. Its containers may reach what apps may reach, but not the
   * platform. Null: builds have no rules.
   */
  readonly buildBridge: string | null;
  /** The address of the platform, which apps may call; null until it listens. */
  platform: { readonly host: string; readonly ports: readonly number[] } | null;
};

/**
 * The address by which apps reach the machine, on each of their networks. It is link-local, so that
 * it conflicts with no other address.
 */
export const hostAddress = "169.254.1.1";
/** The name by which apps reach the machine, for calls to other apps through the platform. */
export const hostName = "slipway.internal";
/**
 * The maximum number of concurrent connections of one app: the whole machine shares one kernel
 * table (262,144 entries unless memory is short).
 */
const connectionsMax = 4_096;

/** Private and special-purpose ranges; apps reach them only if allowed. */
export const privateRanges = [
  "0.0.0.0/8",
  "10.0.0.0/8",
  "100.64.0.0/10",
  "127.0.0.0/8",
  "172.16.0.0/12",
  "192.0.0.0/24",
  "192.168.0.0/16",
  "198.18.0.0/15",
  "224.0.0.0/3",
];
/** Where clouds expose a machine's identity: always blocked, even if allowed. */
export const metadataRanges = [
  "169.254.0.0/16",
  "100.100.100.200/32",
  "168.63.129.16/32",
  "192.0.0.192/32",
];

/** The length of `Firewall.installation`: names of interfaces have no space for more characters. */
export const installationLength = 4;

/** A short name for the installation with this data folder. */
export function installationOf(dataDir: string): string {
  return createHash("sha256").update(dataDir).digest("hex").slice(0, installationLength);
}

/** The name of the nftables table of one installation. */
export function firewallTableOf(firewall: Firewall): string {
  return `slipway_${firewall.installation}`;
}

/**
 * The rules for all interfaces of the installation; replaces existing ones atomically. The pattern
 * `ours` matches the interfaces of this installation, `all` those of all installations. The set
 * `connections` has one element for each interface, and space for more than a machine has.
 */
export function firewallRules(firewall: Firewall): string {
  const table = firewallTableOf(firewall);
  const { allowed, nameServers, platform, links } = firewall;
  const ours = `"${links.prefix}${firewall.installation}*"`;
  const all = `"${links.prefix}*"`;
  const connectionLimit = `  iifname ${ours} ct state new add @connections { iifname ct count over ${connectionsMax} } drop`;
  const platformPorts = platform === null ? [] : [matchOfPorts(platform)];
  const acceptAllowed =
    allowed.length === 0 ? [] : [`  iifname ${ours} ip daddr { ${allowed.join(", ")} } accept`];
  const egressLimits = "  iifname vmap @egress";
  const acceptNames = nameServers.map((server) => `  iifname ${ours} ${acceptNameServer(server)}`);
  return `${[
    `add table inet ${table}`,
    `delete table inet ${table}`,
    `table inet ${table} {`,
    // "typeof", since the nft of Debian 12 crashes when it lists what a newer one made with "type".
    " set connections {",
    "  typeof iifname",
    "  size 65535",
    "  flags dynamic",
    " }",
    " map egress {",
    "  typeof iifname : verdict",
    " }",
    " chain calls_of_the_platform {",
    "  type nat hook prerouting priority dstnat;",
    ...redirectsOf(firewall, ours),
    " }",
    " chain to_the_machine {",
    "  type filter hook input priority filter;",
    `  iifname ${ours} ct state established,related accept`,
    connectionLimit,
    // An app can send to the machine's loopback addresses through its interface (SO_BINDTODEVICE).
    // Only packets that the first chain has redirected to the platform may arrive there.
    `  iifname ${ours} ip daddr 127.0.0.0/8 ct status & dnat == 0 drop`,
    ...platformPorts.map((port) => `  iifname ${ours} ${port} accept`),
    egressLimits,
    ...acceptNames,
    ...acceptAllowed,
    `  iifname ${ours} drop`,
    " }",
    " chain through_the_machine {",
    "  type filter hook forward priority filter;",
    `  oifname ${ours} ct state established,related accept`,
    `  oifname ${ours} drop`,
    `  iifname ${ours} oifname ${all} drop`,
    connectionLimit,
    egressLimits,
    ...acceptNames,
    `  iifname ${ours} ip daddr { ${metadataRanges.join(", ")} } drop`,
    ...acceptAllowed,
    `  iifname ${ours} ip daddr { ${privateRanges.join(", ")} } drop`,
    `  iifname ${ours} meta nfproto ipv6 drop`,
    " }",
    // An interface disappears with its replicas: packets that the platform still sends there must
    // not take another route.
    " chain from_the_machine {",
    "  type filter hook output priority filter;",
    `  ip daddr ${links.range} oifname != ${all} meta l4proto tcp reject with tcp reset`,
    `  ip daddr ${links.range} oifname != ${all} drop`,
    " }",
    " chain to_the_internet {",
    "  type nat hook postrouting priority srcnat;",
    `  ip saddr ${links.range} oifname != ${all} masquerade`,
    " }",
    "}",
    ...[...firewall.egress.keys()].map((link) => limitRules(firewall, link)),
    ...bridgeRulesOf(firewall),
  ].join("\n")}\n`;
}

/** Matches packets to the ports of the platform. */
function matchOfPorts({ ports }: NonNullable<Firewall["platform"]>): string {
  return `tcp dport { ${ports.join(", ")} }`;
}

/** Returns the rule that leads calls at `hostAddress` to the address where the platform listens. */
function redirectsOf({ platform }: Firewall, ours: string): string[] {
  // An IPv4 address can become only another IPv4 address.
  if (platform === null || !isIPv4(platform.host)) return [];
  const ports = matchOfPorts(platform);
  return [`  iifname ${ours} ip daddr ${hostAddress} ${ports} dnat ip to ${platform.host}`];
}

/** Returns the commands that set the rules for image builds; none without a bridge for builds. */
function bridgeRulesOf(firewall: Firewall): string[] {
  const { buildBridge } = firewall;
  return buildBridge === null ? [] : [rulesOf(firewall, buildBridge, buildRules(firewall))];
}

/** Returns the commands that put into force what `egress` says about one interface. */
export function limitRules(firewall: Firewall, link: string): string {
  return rulesOf(firewall, link, egressRules(firewall, firewall.egress.get(link) ?? []));
}

/** Returns the commands that set the rules for packets from the interface. */
function rulesOf(firewall: Firewall, link: string, rules: readonly string[]): string {
  const table = `inet ${firewallTableOf(firewall)}`;
  const chain = chainOfLink(link);
  return `${[
    `add chain ${table} ${chain}`,
    `flush chain ${table} ${chain}`,
    ...rules.map((rule) => `add rule ${table} ${chain} ${rule}`),
    `add element ${table} egress { "${link}" : jump ${chain} }`,
  ].join("\n")}\n`;
}

/** The chain with the rules of one interface. */
export function chainOfLink(link: string): string {
  return `out_${link}`;
}

/**
 * Returns the rules that drop packets to addresses outside these ranges. Packets to the platform do
 * not reach these rules: earlier ones accept them.
 */
export function egressRules(
  { nameServers }: Pick<Firewall, "nameServers">,
  cidrs: readonly string[],
): string[] {
  if (cidrs.length === 0) return ["drop"];
  return [...nameServers.map(acceptNameServer), `ip daddr != { ${cidrs.join(", ")} } drop`];
}

/**
 * Returns the rules for packets from steps of image builds, whose interface the other rules do not
 * match.
 */
function buildRules({ nameServers, allowed }: Firewall): string[] {
  return [
    "ct state established,related accept",
    ...nameServers.map(acceptNameServer),
    `ip daddr { ${metadataRanges.join(", ")} } drop`,
    ...(allowed.length === 0 ? [] : [`ip daddr { ${allowed.join(", ")} } accept`]),
    `ip daddr { ${privateRanges.join(", ")} } drop`,
    // The machine's own public addresses.
    "fib daddr type local drop",
    "meta nfproto ipv6 drop",
  ];
}

function acceptNameServer(server: string): string {
  return `ip daddr ${server} meta l4proto { tcp, udp } th dport 53 accept`;
}
