// A separate network for each replica and each command of a build, where the platform is root and the machine has `ip` and `nft`:
// a network namespace with one virtual cable to the machine. The app can reach the internet and the platform, but nothing else on
// the machine, in other replicas or in private networks. Only the platform can reach the app. Pure.
import { createHash, randomInt } from "node:crypto";
import { isIPv4 } from "node:net";

/** The network support of this machine; found once by `detectNetwork`. */
export type Network =
  | {
      readonly kind: "own";
      /** Four hexadecimal digits that distinguish this installation's interfaces and rules from those of others. */
      readonly installation: string;
      /** Private ranges (CIDR) that apps may reach despite the rules. */
      readonly allowed: readonly string[];
      /** Name servers for apps. */
      readonly nameServers: readonly string[];
      /** Where the platform listens, which apps may call; null until it listens. */
      platform: { readonly host: string; readonly ports: readonly number[] } | null;
    }
  /** Programs share the machine's network. `reason` says why. */
  | { readonly kind: "shared"; readonly reason: string };

export type OwnNetwork = Extract<Network, { kind: "own" }>;

/** One cable: the app's address, and the name of the machine's end. */
export type NetworkAddress = { readonly address: string; readonly link: string };

/** The machine's address for apps, at its end of each cable. Link-local, so it conflicts with nothing. */
export const hostAddress = "169.254.1.1";
/** The machine's host name in apps, for calls to other apps through the platform. */
export const hostName = "slipway.internal";
/** Each app gets its own address from this range. */
const range = "10.213";
/** Prefix of the names of the machine's cable ends, in all installations. */
export const linkPrefix = "slp";
/** Concurrent connections of one app: the whole machine shares one kernel table (262,144 entries unless memory is short). */
export const connectionsMax = 4_096;

/** Private and special-purpose ranges; apps reach them only if allowed. */
const privateRanges = [
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
const metadataRanges = ["169.254.0.0/16", "100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32"];

/** A short name for the installation with this data folder. */
export function installationOf(dataDir: string): string {
  return createHash("sha256").update(dataDir).digest("hex").slice(0, 4);
}

/**
 * Chooses an address that no route of the machine uses. `routes`: the text of /proc/net/route. If two runs choose the
 * same address at the same moment, the set-up of one fails, since a route to one address can be added only once.
 */
export function chooseAddress(network: OwnNetwork, routes: string): NetworkAddress | null {
  const taken = routedHosts(routes);
  for (let attempt = 0; attempt < 100; attempt++) {
    const [third, fourth] = [randomInt(256), randomInt(1, 255)];
    const address = `${range}.${third}.${fourth}`;
    if (taken.has(routeName(address))) continue;
    const end = [third, fourth].map((byte) => byte.toString(16).padStart(2, "0")).join("");
    return { address, link: `${linkPrefix}${network.installation}${end}` };
  }
  return null;
}

/** True while the machine has the route to the address: other programs that configure networks may have removed it. */
export function isRouted({ address }: NetworkAddress, routes: string): boolean {
  return routedHosts(routes).has(routeName(address));
}

function routedHosts(routes: string): Set<string | undefined> {
  return new Set(routes.split("\n").map((line) => line.split("\t")[1]));
}

/** As the kernel writes it, the last byte first. */
function routeName(address: string): string {
  const bytes = address.split(".").map((byte) => Number(byte).toString(16).padStart(2, "0"));
  return bytes.toReversed().join("").toUpperCase();
}

/**
 * Shell lines that connect a new network namespace. They run inside it as root, before the machine's own files are
 * hidden. `platform`: a process in the machine's own network. A failure prints to standard error and exits the shell with `exitCode`.
 */
export function networkSetup(
  network: OwnNetwork,
  { address, link }: NetworkAddress,
  at: { readonly platform: number; readonly exitCode: number },
): string {
  const host = `/proc/${at.platform}/ns/net`;
  const onHost = `nsenter --net=${host}`;
  const orEnd = `|| exit ${at.exitCode}`;
  return `ip -batch - <<'END' ${orEnd}
link set lo up
link add eth0 type veth peer name ${link} netns ${host}
addr add ${address}/32 dev eth0
link set eth0 up
route add ${hostAddress} dev eth0 scope link
route add default via ${hostAddress} dev eth0
END
{ echo 1 >/proc/sys/net/ipv6/conf/eth0/disable_ipv6; echo 0 >/proc/sys/net/ipv4/ip_unprivileged_port_start; } 2>/dev/null
${onHost} ip -batch - <<'END' ${orEnd}
addr add ${hostAddress}/32 dev ${link}
link set ${link} up
route add ${address}/32 dev ${link} src ${hostAddress}
END
${onHost} sh -c 'echo 1 >/proc/sys/net/ipv4/conf/${link}/route_localnet' ${orEnd}
${onHost} nft list table inet ${firewallTableOf(network)} >/dev/null 2>&1 || ${onHost} nft -f - <<'END' ${orEnd}
${networkRules(network)}END
`;
}

/** Further lines for an app with a web server: redirects calls to servers that listen only on the loopback address. */
export function redirectToLoopback({ address }: NetworkAddress, exitCode: number): string {
  return `{ echo 1 >/proc/sys/net/ipv4/conf/eth0/route_localnet && nft -f - <<'END'
table ip slipway {
 chain calls {
  type nat hook prerouting priority dstnat;
  iifname "eth0" ip daddr ${address} dnat to 127.0.0.1
 }
}
END
} || exit ${exitCode}
`;
}

/** The name of the nftables table of one installation. */
export function firewallTableOf(network: OwnNetwork): string {
  return `slipway_${network.installation}`;
}

/** The machine's rules for all cables of the installation; replaces existing ones atomically. */
export function networkRules(network: OwnNetwork): string {
  const table = firewallTableOf(network);
  const ours = `"${linkPrefix}${network.installation}*"`;
  const all = `"${linkPrefix}*"`;
  const { allowed, nameServers, platform } = network;
  const fewConnections = `  iifname ${ours} ct state new add @connections { iifname ct count over ${connectionsMax} } drop`;
  const ports = platform === null ? [] : [`tcp dport { ${platform.ports.join(", ")} }`];
  const allowedLine = allowed.length === 0 ? [] : [`  iifname ${ours} ip daddr { ${allowed.join(", ")} } accept`];
  const names = nameServers.map(
    (server) => `  iifname ${ours} ip daddr ${server} meta l4proto { tcp, udp } th dport 53 accept`,
  );
  return `${[
    `add table inet ${table}`,
    `delete table inet ${table}`,
    `table inet ${table} {`,
    " set connections {",
    "  type ifname",
    "  size 65535",
    "  flags dynamic",
    " }",
    " chain calls_of_the_platform {",
    "  type nat hook prerouting priority dstnat;",
    ...(platform === null || !isIPv4(platform.host)
      ? []
      : ports.map((port) => `  iifname ${ours} ip daddr ${hostAddress} ${port} dnat ip to ${platform.host}`)),
    " }",
    " chain to_the_machine {",
    "  type filter hook input priority filter;",
    `  iifname ${ours} ct state established,related accept`,
    fewConnections,
    // An app can send to the machine's loopback addresses through its cable (SO_BINDTODEVICE).
    `  iifname ${ours} ip daddr 127.0.0.0/8 ct status & dnat == 0 drop`,
    ...ports.map((port) => `  iifname ${ours} ${port} accept`),
    ...names,
    ...allowedLine,
    `  iifname ${ours} drop`,
    " }",
    " chain through_the_machine {",
    "  type filter hook forward priority filter;",
    `  oifname ${ours} ct state established,related accept`,
    `  oifname ${ours} drop`,
    `  iifname ${ours} oifname ${all} drop`,
    fewConnections,
    ...names,
    `  iifname ${ours} ip daddr { ${metadataRanges.join(", ")} } drop`,
    ...allowedLine,
    `  iifname ${ours} ip daddr { ${privateRanges.join(", ")} } drop`,
    `  iifname ${ours} meta nfproto ipv6 drop`,
    " }",
    // A cable disappears with its replica: what the platform still sends there must not take another route.
    " chain from_the_machine {",
    "  type filter hook output priority filter;",
    `  ip daddr ${range}.0.0/16 oifname != ${all} meta l4proto tcp reject with tcp reset`,
    `  ip daddr ${range}.0.0/16 oifname != ${all} drop`,
    " }",
    " chain to_the_internet {",
    "  type nat hook postrouting priority srcnat;",
    `  ip saddr ${range}.0.0/16 oifname != ${all} masquerade`,
    " }",
    "}",
  ].join("\n")}\n`;
}
