// Looks up names for outward calls. It asks DNS directly: the system's resolver occupies one of the
// four worker threads of Node while a name server stays silent, and a user can give a URL whose
// name server never answers. The system is asked only for names that DNS does not know, such as
// names in /etc/hosts, names of containers, and names that a search domain completes.
import { lookup as systemLookup, Resolver } from "node:dns/promises";
import { Gate } from "./gate.ts";
import { codeOf, OutwardRefused } from "./outward-reasons.ts";

/** Returns the addresses of a name, at least one; rejects when there is none. */
export type NameLookup = (name: string) => Promise<readonly string[]>;

/** The timeout of one query to one server; the second try waits longer. */
const dnsWaitMs = 2_000;
const dnsTries = 2;
/**
 * How many of Node's four worker threads may look up names; the others stay free for files and
 * cryptography.
 */
const systemLookupsMax = 2;
/** How many lookups may wait for one of these threads; further ones are refused. */
const systemWaitingMax = 1_000;
/**
 * Codes that mean that DNS does not know the name, or that there is no DNS. A timeout is none of
 * them, since the system would wait in vain too.
 */
const askSystemAfter = new Set(["ENOTFOUND", "ENODATA", "ECONNREFUSED", "EREFUSED"]);

/** For tests: other name servers (address:port), another timeout, another system resolver. */
export type NameLookupOptions = {
  readonly servers?: readonly string[];
  readonly waitMs?: number;
  readonly system?: NameLookup;
};

/** Returns the default name lookup. */
export function makeNameLookup(options: NameLookupOptions = {}): NameLookup {
  const { system = askSystem } = options;
  const refusal = (): Error => new OutwardRefused("too many names are being looked up");
  const systemGate = new Gate({ max: systemLookupsMax, waitingMax: systemWaitingMax, refusal });
  return async (name) => {
    // DNS knows no names without a dot: the system completes them with search domains.
    const answer = name.includes(".") ? await askDns(name, options) : null;
    return answer ?? (await systemGate.run(() => system(name)));
  };
}

async function askSystem(name: string): Promise<readonly string[]> {
  const answers = await systemLookup(name, { all: true });
  return answers.map(({ address }) => address);
}

/** Asks DNS for the addresses of a name; null when only the system may know it. */
async function askDns(name: string, options: NameLookupOptions): Promise<readonly string[] | null> {
  // A new resolver each time, so that it uses the machine's current name servers.
  const resolver = new Resolver({ timeout: options.waitMs ?? dnsWaitMs, tries: dnsTries });
  if (options.servers !== undefined) resolver.setServers(options.servers);
  const answers = await Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)]);
  const addresses = answers
    .filter((answer) => answer.status === "fulfilled")
    .flatMap((answer) => answer.value);
  if (addresses.length > 0) return addresses;
  // A fulfilled answer has no address here, so it counts as ENODATA.
  const codes = answers.map((answer) =>
    answer.status === "rejected" ? codeOf(answer.reason) : "ENODATA",
  );
  if (codes.every((code) => askSystemAfter.has(code))) return null;
  throw new OutwardRefused("its name could not be looked up");
}
