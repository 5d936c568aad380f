// Proves names by records in DNS (DNS-01), which also proves wildcards. `TxtRecords` changes the
// records; this file waits until the authority can see them.
import type { Resolver } from "node:dns/promises";
import type { Clock } from "#lib/clock.ts";
import { newResolver } from "#lib/dns-resolver.ts";
import { AuthorityError, type Proof, type Prover } from "./authority.ts";

/** A record of the kind TXT. The name is complete, without a dot at its end. */
export type TxtRecord = { readonly name: string; readonly value: string };

/** Changes records of kind TXT; others of the same name stay. Rejects with `AuthorityError`. */
export interface TxtRecords {
  add(record: TxtRecord, signal: AbortSignal): Promise<void>;
  /** Also resolves when there is no such record. */
  remove(record: TxtRecord): Promise<void>;
}

export type DnsProverOptions = {
  readonly records: TxtRecords;
  /** The name servers that must know a record, as addresses; empty: those of its zone. */
  readonly servers: readonly string[];
  readonly clock: Clock;
};

/** How long the wait between two looks for a record is. */
const lookEveryMs = 2_000;
/** How long a record is looked for. */
const seenWaitMs = 600_000;
/** A name server that does not answer within this time has not got the record yet. */
const answerMs = 5_000;

/** Shows proofs as records, once every name server of the zone has them. */
export function dnsProver({ records, servers, clock }: DnsProverOptions): Prover {
  return {
    kind: "dns-01",
    async show(proof, signal) {
      const record = recordOf(proof);
      await records.add(record, signal);
      const untilMs = clock.monotonicMs() + seenWaitMs;
      while (!(await isSeen(record, servers))) {
        if (clock.monotonicMs() >= untilMs) {
          throw new AuthorityError(
            `the record TXT ${record.name} was not seen within ${seenWaitMs / 60_000} minutes`,
          );
        }
        await clock.sleep(lookEveryMs, signal);
      }
    },
    hide: (proof) => records.remove(recordOf(proof)),
  };
}

function recordOf({ name, answer }: Proof): TxtRecord {
  return { name: `_acme-challenge.${name}`, value: answer };
}

/** The zones that may hold the name, the longest first. */
export function zonesOf(name: string): string[] {
  const labels = name.split(".");
  // The last part alone, such as `org`, is not a zone of an operator.
  return labels.slice(0, -1).map((_, index) => labels.slice(index).join("."));
}

/** Whether all name servers have the record. */
async function isSeen({ name, value }: TxtRecord, given: readonly string[]): Promise<boolean> {
  const servers = given.length > 0 ? given : await serversOf(name);
  const found = await Promise.all(
    servers.map(async (server) => {
      const resolver = resolverAt([server]);
      const texts = await resolver.resolveTxt(name).catch(() => []);
      return texts.some((pieces) => pieces.join("") === value);
    }),
  );
  return found.length > 0 && found.every(Boolean);
}

/** The addresses of the name servers of the zone that holds the name; empty: none answers. */
async function serversOf(name: string): Promise<string[]> {
  const resolver = resolverAt([]);
  for (const zone of zonesOf(name)) {
    const names = await resolver.resolveNs(zone).catch(() => []);
    const addresses = await Promise.all(
      names.map((server) => resolver.resolve4(server).catch(() => [])),
    );
    if (addresses.flat().length > 0) return addresses.flat();
  }
  return [];
}

function resolverAt(servers: readonly string[]): Resolver {
  return newResolver({ servers, waitMs: answerMs, tries: 1 });
}
