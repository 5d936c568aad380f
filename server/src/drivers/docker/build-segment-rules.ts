// The firewall rules for the network in which the engine runs the steps of builds: frames pass only
// between a step and the machine, and nobody sends or receives in the name of a step. Pure.

/** A port of the network's bridge, and what is connected there. */
export type Port = {
  /** The name of its interface on the machine. */
  readonly name: string;
  /** The address of the network card at the port's other end. */
  readonly mac: string;
  /** IPv4 addresses of that card. */
  readonly addresses: readonly string[];
};

/** What the rules depend on. */
export type SegmentFacts = {
  readonly table: string;
  /** The network's ranges (CIDR, IPv4). A port in neither list below sends and gets nothing. */
  readonly ranges: readonly string[];
  readonly steps: readonly Port[];
  /** The interfaces of other containers: the rules do not affect what they send to each other. */
  readonly others: readonly string[];
};

/**
 * Rules expire after this time unless they are renewed, so that the rules of a platform that was
 * killed do not cut off containers that others start later.
 */
export const renewedWithinSeconds = 60;

/** The input for `nft` that replaces all earlier rules of the table at once. */
export function segmentRules({ table, ranges, steps, others }: SegmentFacts): string {
  const bound = steps.flatMap(({ name, mac, addresses }) =>
    addresses.map((address) => `"${name}" . ${mac} . ${address}`),
  );
  return `${[
    `add table bridge ${table}`,
    `delete table bridge ${table}`,
    `table bridge ${table} {`,
    ...set("ranges", "ip saddr", ranges),
    ...set("others", "iifname", others.map(quoted)),
    ...set(
      "steps",
      "iifname",
      steps.map(({ name }) => quoted(name)),
    ),
    ...set("bound", "iifname . ether saddr . ip saddr", bound),
    ...set(
      "cards",
      "iifname . ether saddr",
      steps.map(({ name, mac }) => `"${name}" . ${mac}`),
    ),
    ...set(
      "macs",
      "ether saddr",
      steps.map(({ mac }) => mac),
    ),
    ...set(
      "addresses",
      "ip saddr",
      steps.flatMap(({ addresses }) => addresses),
    ),
    // "prerouting" is before the bridge learns from a frame at which port its sender is.
    " chain from_ports {",
    "  type filter hook prerouting priority filter;",
    "  iifname . ether saddr . ip saddr @bound accept",
    "  iifname . ether saddr . arp saddr ip @bound iifname . arp saddr ether . arp saddr ip @bound accept",
    "  iifname @steps drop",
    "  ether saddr @macs drop",
    "  ip saddr @addresses drop",
    "  arp saddr ip @addresses drop",
    "  iifname != @others ip saddr @ranges drop",
    "  iifname != @others arp saddr ip @ranges drop",
    " }",
    " chain between_ports {",
    "  type filter hook forward priority filter;",
    "  iifname @steps drop",
    "  oifname @steps drop",
    "  oifname != @others ip daddr @ranges drop",
    "  oifname != @others arp daddr ip @ranges drop",
    " }",
    // A bridge sends a frame to all ports when it does not know the port of the receiving card.
    " chain to_ports {",
    "  type filter hook output priority filter;",
    "  oifname . ether daddr @cards accept",
    "  oifname @steps ether daddr & 01:00:00:00:00:00 == 00:00:00:00:00:00 drop",
    "  oifname @steps accept",
    "  oifname != @others ip daddr @ranges drop",
    "  oifname != @others arp daddr ip @ranges drop",
    " }",
    "}",
  ].join("\n")}\n`;
}

/**
 * The lines of a set of what `field` of a packet may be; its elements expire. The nft of Debian 12
 * crashes as it lists sets that a newer nft has made by "type" instead.
 */
function set(name: string, field: string, elements: readonly string[]): string[] {
  // nft accepts ranges of addresses only in a set with intervals.
  const flags = field === "ip saddr" ? "interval, timeout" : "timeout";
  const lines = [` set ${name} {`, `  typeof ${field}`, `  flags ${flags}`];
  const unique = [...new Set(elements)].map((one) => `${one} timeout ${renewedWithinSeconds}s`);
  if (unique.length > 0) lines.push(`  elements = { ${unique.join(", ")} }`);
  return [...lines, " }"];
}

function quoted(name: string): string {
  return `"${name}"`;
}
