// A separate network for each replica and each command of a build, where the platform is root and
// the machine has `ip` and `nft`: a network namespace with one virtual cable to the machine. The
// app can reach the internet and the platform, but nothing else on the machine, in other replicas
// or in private networks. Only the platform can reach the app. Pure.
import { randomInt } from "node:crypto";
import {
  egressRules,
  firewallRules,
  firewallTableOf,
  hostAddress,
  type Firewall,
} from "#drivers/app-firewall.ts";

/** The network support of this machine; found once by `detectNetwork`. */
export type Network =
  | (Firewall & { readonly kind: "own" })
  /** Programs share the machine's network. `reason` says why. */
  | { readonly kind: "shared"; readonly reason: string };

export type OwnNetwork = Extract<Network, { kind: "own" }>;

/** One cable: the app's address, and the name of the machine's end. */
export type NetworkAddress = { readonly address: string; readonly link: string };

/** Each replica, and each command of a build, gets an address of its own from this range. */
const range = "10.213";
/** Prefix of the names of the machine's cable ends, in all installations. */
export const linkPrefix = "slp";
/** The maximum number of addresses that are tried for one network. */
const attemptsMax = 100;
/** The machine's ends of all cables, for the firewall. */
export const cables = { prefix: linkPrefix, range: `${range}.0.0/16` };

/**
 * The last two bytes of the latest address. They count up, so that runs that begin at the same
 * time, before their routes exist, get different addresses.
 */
let lastHost = randomInt(2 ** 16);

/**
 * Chooses an address that no route of the machine uses. `routes`: the text of /proc/net/route. If
 * two platforms choose the same address at the same moment, the set-up of one fails, since a route
 * to one address can be added only once.
 */
export function chooseAddress(network: OwnNetwork, routes: string): NetworkAddress | null {
  const taken = routedHosts(routes);
  for (let attempt = 0; attempt < attemptsMax; attempt++) {
    lastHost = (lastHost + 1) % 2 ** 16;
    const third = lastHost >> 8;
    const fourth = lastHost & 0xff;
    const address = `${range}.${third}.${fourth}`;
    // An address that ends with 0 or 255 looks like the address of a whole network.
    const isUnusual = fourth === 0 || fourth === 0xff;
    if (isUnusual || taken.has(routeName(address))) continue;
    const end = lastHost.toString(16).padStart(4, "0");
    return { address, link: `${linkPrefix}${network.installation}${end}` };
  }
  return null;
}

/**
 * True while the machine has the route to the address: other programs that configure networks may
 * have removed it.
 */
export function isRouted({ address, link }: NetworkAddress, routes: string): boolean {
  return routes.split("\n").some((line) => line.startsWith(`${link}\t${routeName(address)}\t`));
}

/** The addresses that have a route: the second field of each line, after the interface. */
function routedHosts(routes: string): Set<string | undefined> {
  return new Set(routes.split("\n").map((line) => line.split("\t")[1]));
}

/** The address as the kernel writes it: hexadecimal, with the last byte first. */
function routeName(address: string): string {
  const bytes = address.split(".").map((byte) => Number(byte).toString(16).padStart(2, "0"));
  return bytes.toReversed().join("").toUpperCase();
}

/**
 * Shell lines that connect a new network namespace. They run inside it as root, before the
 * machine's own files are hidden. The app has no IPv6, and may listen on any port; errors of the
 * line that sets both are ignored, since a kernel may lack these files. `platform`: the id of a
 * process in the machine's own network. Any other failure prints to standard error and exits the
 * shell with `exitCode`.
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
link add eth0 type veth peer name ${link} netns ${host}
${linkLines(address)}END
{ echo 1 >/proc/sys/net/ipv6/conf/eth0/disable_ipv6; echo 0 >/proc/sys/net/ipv4/ip_unprivileged_port_start; } 2>/dev/null
${onHost} ip -batch - <<'END' ${orEnd}
addr add ${hostAddress}/32 dev ${link}
link set ${link} up
route add ${address}/32 dev ${link} src ${hostAddress}
END
${onHost} sh -c 'echo 1 >/proc/sys/net/ipv4/conf/${link}/route_localnet' ${orEnd}
${onHost} nft list table inet ${firewallTableOf(network)} >/dev/null 2>&1 || ${onHost} nft -f - <<'END' ${orEnd}
${firewallRules(network)}END
`;
}

/** Lines of `ip -batch` that set up the app's end of a cable in its network namespace. */
export function linkLines(address: string): string {
  return `link set lo up
addr add ${address}/32 dev eth0
link set eth0 up
route add ${hostAddress} dev eth0 scope link
route add default via ${hostAddress} dev eth0
`;
}

/**
 * Further lines for an app with a web server. They redirect calls to the loopback address, since a
 * server may listen only there.
 */
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

/**
 * Further lines for an app that may reach only the ranges `cidrs`; the machine's rules narrow these
 * ranges further.
 */
export function limitEgressInside(
  network: OwnNetwork,
  cidrs: readonly string[],
  exitCode: number,
): string {
  return `nft -f - <<'END' || exit ${exitCode}
table inet slipway {
 chain egress {
  type filter hook output priority filter;
  oifname "lo" accept
  ct state established,related accept
  ip daddr ${hostAddress} accept
  ${egressRules(network, cidrs).join("\n  ")}
 }
}
END
`;
}
