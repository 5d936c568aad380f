// Asks DNS for the records that prove a domain. Somebody may add a name whose name servers stay
// silent, so each look has a deadline, and the number of looks at once is limited, for all projects
// and for each one.
import type { Clock } from "#lib/clock.ts";
import { newResolver } from "#lib/dns-resolver.ts";
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
/** The deadline of a look, however many servers there are. */
const lookMs = 10_000;
/** The maximum number of looks that run at once. */
const atOnceMax = 16;
/** The maximum number of looks of one project that run at once. */
const atOnceOfProjectMax = 4;
/** The maximum number of looks that wait. */
const waitingMax = 500;
/**
 * The maximum number of looks of one project that wait. It is more than a project has domains, and
 * still leaves room in the queue for other projects.
 */
const waitingOfProjectMax = 120;
/** Codes that say that DNS has no such record. Other codes say that DNS could not answer. */
const absentCodes = new Set(["ENOTFOUND", "ENODATA"]);

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

  /**
   * Looks up the records that may prove the name. Throws `Fault("rate_limited")` when too many
   * looks wait. That DNS does not answer is no error.
   */
  async look(projectId: ProjectId, name: string): Promise<DnsRecords> {
    return await this.#gate.run(() => this.#look(name), { key: projectId });
  }

  async #look(name: string): Promise<DnsRecords> {
    const { dnsServers, clock } = this.#options;
    const resolver = newResolver({ servers: dnsServers, waitMs: dnsWaitMs, tries: dnsTries });
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

/** The records; empty: DNS has none; null: DNS did not answer. */
async function orNull(answer: Promise<readonly string[]>): Promise<readonly string[] | null> {
  try {
    return await answer;
  } catch (error) {
    return absentCodes.has(errorCode(error)) ? [] : null;
  }
}

/** The name in lower case, without a dot at its end. */
function plainName(name: string): string {
  return name.toLowerCase().replace(/\.$/, "");
}
