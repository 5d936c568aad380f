// Holds back new connections while one platform is replaced by the next, for a platform whose
// socket ends with it, as in a container. The machine's firewall drops the first packet of each
// connection; clients send it again after 1, 3 and 7 seconds, so they wait and are not refused.
import { readFile } from "node:fs/promises";
import { CannotStart } from "#lib/cannot-start.ts";
import type { Clock } from "#lib/clock.ts";
import { openingRows } from "#lib/listening-rows.ts";
import type { Log } from "#lib/log.ts";
import { runMachineTool } from "#drivers/app-firewall-machine.ts";

type HoldParts = {
  /** The platform's own ports. The first one names the table of rules. */
  readonly ports: readonly [number, ...number[]];
  /** How long connections wait at most if no platform comes. */
  readonly holdSeconds: number;
  readonly clock: Clock;
  readonly log: Log;
};

/** How long a client may take to finish opening a connection that it began before the hold. */
const openingMs = 2_000;
const lookMs = 20;

/**
 * Ends the hold of the platform before this one, whose connections come in from now on. Returns a
 * function that begins one for the ports that it is given; from when it resolves, none of them gets
 * a new connection. Throws `CannotStart` when the firewall cannot be set.
 */
export async function openHold(
  parts: HoldParts,
): Promise<(ports: readonly number[]) => Promise<void>> {
  const table = `slipway_hold_${parts.ports[0]}`;
  const failure = await setRules(withoutTable(table));
  if (failure !== null)
    throw new CannotStart(
      `SLIPWAY_HOLD_SECONDS is ${parts.holdSeconds}, but rules of the machine's firewall cannot be set (${failure}). This needs root or the capability NET_ADMIN, and the program nft. With 0, connections are refused while no platform runs.`,
    );
  return (ports) => hold(table, ports, parts);
}

async function hold(
  table: string,
  ports: readonly number[],
  { holdSeconds, clock, log }: HoldParts,
): Promise<void> {
  const failure = await setRules(holdRules(table, ports, holdSeconds));
  if (failure !== null) {
    log.error({ reason: failure }, "new connections are refused until the next platform runs");
    return;
  }
  const untilMs = clock.monotonicMs() + openingMs;
  while ((await countOpening(ports)) > 0 && clock.monotonicMs() < untilMs)
    await clock.sleep(lookMs);
}

function setRules(rules: string): Promise<string | null> {
  return runMachineTool(["nft", "-f", "-"], { input: rules });
}

/** Deletes the table, whether or not it is there. */
function withoutTable(table: string): string {
  return `add table inet ${table}\ndelete table inet ${table}\n`;
}

/** The first packet of a connection is the one that has SYN without ACK. */
function holdRules(table: string, ports: readonly number[], holdSeconds: number): string {
  const held = ports.map((port) => `${port} timeout ${holdSeconds}s`).join(", ");
  return `${withoutTable(table)}table inet ${table} {
  set held {
    typeof tcp dport
    flags timeout
    elements = { ${held} }
  }
  chain first_packets {
    type filter hook input priority filter - 10
    tcp dport @held tcp flags & (syn | ack) == syn drop
  }
}
`;
}

/** How many connections to these ports are being opened: their clients have yet to answer. */
async function countOpening(ports: readonly number[]): Promise<number> {
  const tables = await Promise.all(
    ["/proc/net/tcp", "/proc/net/tcp6"].map((file) => readFile(file, "utf8").catch(() => "")),
  );
  return openingRows(tables.join("")).filter(({ port }) => ports.includes(port)).length;
}
