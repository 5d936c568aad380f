// Asks DNS for the records that prove a domain. Whoever adds a name may pick one whose name servers
// stay silent, so each look has a deadline, and only so many run at once, few of one project.
import { Resolver } from "node:dns/promises";
import type { Clock } from "#lib/clock.ts";
import { errorCode } from "#lib/error-code.ts";
import { Fault } from "#lib/fault.ts";
import { Gate } from "#lib/gate.ts";
import type { ProjectId } from "#lib/ids.ts";
import { withDeadline } from "#lib/with-deadline.ts";
import { challengeLabel } from "./domain-name.ts";
import type { DnsRecords } from "./domain-proof.ts";

/** The timeout of one query to one server; the second try waits longer. */
const dnsWaitMs = 2_000;
const dnsTries = 2;
/** The deadline of a look, whatever number of servers there is. */
const lookMs = 10_000;
const atOnceMax = 16;
const atOnceOfProjectMax = 4;
const waitingMax = 500;
/** More than a project has domains, so that one project cannot use up the queue of all. */
const waitingOfProjectMax = 120;
/** Codes that say that DNS has no such record. Others say that it could not answer. */
const isAbsent = new Set(["ENOTFOUND", "ENODATA"]);

export type DomainLookupOptions = {
  /** The name servers to ask, as address or address:port; empty: those of the machine. */
  readonly dnsServers: readonly string[];
  readonly clock: Clock;
};

/** Looks up records. */
export class DomainLookup {
  readonly #options: DomainLookupOptions;
  readonly #gate = new Gate({
    max: atOnceMax,
    keyMax: atOnceOfProjectMax,
    waitingMax,
    keyWaitingMax: waitingOfProjectMax,
    refusal: () => new Fault("rate_limited", "Too many domains are being looked up; try again."),
  });

  constructor(options: DomainLookupOptions) {
    this.#options = options;
  }

  /** Throws `Fault("rate_limited")` when too many looks wait; DNS without an answer is no error. */
  async look(projectId: ProjectId, name: string): Promise<DnsRecords> {
    return await this.#gate.run(() => this.#look(name), { key: projectId });
  }

  async #look(name: string): Promise<DnsRecords> {
    const { dnsServers, clock } = this.#options;
    // A new resolver each time, so that it uses the machine's current name servers.
    const resolver = new Resolver({ timeout: dnsWaitMs, tries: dnsTries });
    if (dnsServers.length > 0) resolver.setServers(dnsServers);
    const texts = resolver.resolveTxt(`${challengeLabel}.${name}`);
    const answers = Promise.all([
      orNull(resolver.resolveCname(name).then((names) => names.map(plainName))),
      // A long text is sent in pieces.
      orNull(texts.then((records) => records.map((pieces) => pieces.join("")))),
    ]);
    try {
      const [cnames, found] = await withDeadline(clock, lookMs, answers);
      return { cnames, texts: found };
    } catch {
      // `answers` never rejects, so this was the deadline.
      resolver.cancel();
      return { cnames: null, texts: null };
    }
  }
}

/** The records; empty: DNS has none; null: it did not answer. */
async function orNull(answer: Promise<readonly string[]>): Promise<readonly string[] | null> {
  try {
    return await answer;
  } catch (error) {
    return isAbsent.has(errorCode(error)) ? [] : null;
  }
}

function plainName(name: string): string {
  return name.toLowerCase().replace(/\.$/, "");
}
