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
  /** The name of the table that has the rules. */
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

/**
 * The input for `nft` that replaces all earlier rules of the table at once. The set `bound` has the
 * combinations of port, card and address with which a step may send, `cards` the combinations of
 * port and card to which a step's frames are sent. Only their step may send in the name of `macs`
 * and `addresses`.
 */
export function segmentRules({ table, ranges, steps, others }: SegmentFacts): string {
  const bound = steps.flatMap(({ name, mac, addresses }) =>
    addresses.map((address) => `"${name}" . ${mac} . ${address}`),
  );
  return `${[
    // A table that does not exist cannot be deleted, so the table is added first.
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
    // Drops what a step sends under another name, what others send in the name of a step, and what
    // a port that is not identified sends. "prerouting" is before the bridge learns from a frame at
    // which port its sender is.
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
    // Drops what would go from one port to another, except between other containers.
    " chain between_ports {",
    "  type filter hook forward priority filter;",
    "  iifname @steps drop",
    "  oifname @steps drop",
    "  oifname != @others ip daddr @ranges drop",
    "  oifname != @others arp daddr ip @ranges drop",
    " }",
    // Drops what the machine sends to a step's port but to another card, or to a port that is not
    // identified: a bridge sends a frame to all ports when it does not know the port of the
    // receiving card. In the address of a broadcast, the masked bit is set.
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
 * The lines that define a set. Its elements are values of `field`, a field of packets, and expire.
 * The set says "typeof", since the nft of Debian 12 crashes when it lists a set that a newer nft
 * has made with "type".
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
