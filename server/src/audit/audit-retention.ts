// Removes entries of the audit log that are older than they are to be kept, in bounded steps, and leaves a signed stub in
// each chain that it cuts. A loop: what one turn leaves, the next one finds.
import type { Clock } from "#lib/clock.ts";
import type { ProjectId } from "#lib/ids.ts";
import type { Log } from "#lib/log.ts";
import { Loop } from "#lib/loop.ts";
import type { Db } from "#store/database.ts";
import { signText, type ChainSigner } from "./chain-signature.ts";
import { findCut, listChainBegins, removeEntries } from "./chain-store.ts";
import { signedText, stubLine, type ChainPlace } from "./export-format.ts";
import { projectOfChain, type Chain } from "./export-store.ts";

const dayMs = 86_400_000;
/** Old entries may stay an hour longer; readers do not see them any more. */
const intervalMs = 3_600_000;
const batchMax = 5_000;
/** Steps of one turn: five million entries, more than an hour's worth of a busy platform. */
const stepsMax = 1_000;

/** For how many days entries of a project are kept, at least 1; null: of no project. Answers from memory. */
export type RetentionOf = (projectId: ProjectId | null) => number;

/** What retention needs. */
export type AuditRetentionOptions = {
  readonly db: Db;
  readonly clock: Clock;
  readonly log: Log;
  readonly signer: ChainSigner;
  readonly retentionOf: RetentionOf;
};

/** The loop; start and stop it with the platform. */
export function auditRetentionLoop(options: AuditRetentionOptions): Loop {
  const { clock, log } = options;
  const turn = (signal: AbortSignal): Promise<void> => removeOldEntries(options, signal);
  return new Loop({ name: "audit retention", intervalMs, waitsForClock: true, clock, log, turn });
}

/** One turn: removes what is too old, until nothing is left, the bound is reached or `signal` is aborted. */
export async function removeOldEntries(options: AuditRetentionOptions, signal: AbortSignal): Promise<void> {
  const { db, clock, log, retentionOf } = options;
  let steps = stepsMax;
  for (const { chain, at } of await listChainBegins(db)) {
    const retentionDays = retentionOf(projectOfChain(chain));
    const before = new Date(clock.now() - retentionDays * dayMs);
    let removed = 0;
    for (let isMore = at < before; isMore && steps > 0 && !signal.aborted; steps--) {
      const count = await removeSome(options, { chain, before });
      removed += count;
      isMore = count === batchMax;
    }
    if (removed > 0) log.info({ chain, removed, retentionDays }, "removed old entries of the audit log");
  }
}

/** One step. A chain is cut before the first entry that is kept, so what came late may stay until those before it go. */
async function removeSome(
  { db, clock, signer }: AuditRetentionOptions,
  { chain, before }: { readonly chain: Chain; readonly before: Date },
): Promise<number> {
  const cut: ChainPlace | undefined = await findCut(db, { chain, before, limit: batchMax });
  if (cut === undefined) return 0;
  const at = new Date(clock.now());
  const times = { before: before.toISOString(), at: at.toISOString() };
  const { jws: _, ...unsigned } = stubLine({ ...cut, ...times, jws: "" });
  const signature = await signText(signer, signedText(unsigned, projectOfChain(chain)));
  return await removeEntries(db, { chain, through: cut.number, before, at, ...signature });
}
