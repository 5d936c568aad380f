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
/** How often the connections that are being opened are counted. */
const lookMs = 20;

/**
 * Ends the hold that the previous platform began, so that held connections reach this one. Returns
 * a function that begins a hold for the given ports: once the function has resolved, these ports
 * get no new connections, unless the rules cannot be set then, which is logged. Throws
 * `CannotStart` when rules of the firewall cannot be set now.
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

/** Returns why the rules could not be set; null: they are set. */
function setRules(rules: string): Promise<string | null> {
  return runMachineTool(["nft", "-f", "-"], { input: rules });
}

/** The commands that delete the table. A table that is not there is added first. */
function withoutTable(table: string): string {
  return `add table inet ${table}\ndelete table inet ${table}\n`;
}

/**
 * The commands that replace the table by one that drops the first packets of connections: those
 * that have SYN without ACK. The priority makes this chain run before the usual filters.
 */
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
