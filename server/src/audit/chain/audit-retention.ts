// Removes audit log entries past their retention and leaves a signed stub in each chain that it
// cuts. Readers no longer see such entries, even before their removal.
import { signedText, stubLine, type ChainPosition } from "#audit/export/export-format.ts";
import { projectOfChain, type Chain } from "#audit/export/export-store.ts";
import type { ProjectId } from "#lib/ids.ts";
import { daysAgo, type RemovalStep } from "#lib/retention.ts";
import type { Foundation } from "#store/foundation.ts";
import { signText, type ChainSigner } from "./chain-signature.ts";
import { findCut, listChainBegins, removeEntries } from "./chain-store.ts";

/**
 * For how many days a project's entries are kept, at least 1; null: entries without a project.
 * Answers from memory.
 */
export type RetentionOf = (projectId: ProjectId | null) => number;

/** The parts of audit retention. */
export type AuditRetentionOptions = Pick<Foundation, "db" | "clock"> & {
  readonly signer: ChainSigner;
  readonly retentionOf: RetentionOf;
};

/** The steps of one turn. */
export async function* auditRetention(options: AuditRetentionOptions): AsyncGenerator<RemovalStep> {
  const { db, clock, retentionOf } = options;
  for (const { chain, at } of await listChainBegins(db)) {
    const before = daysAgo(clock, retentionOf(projectOfChain(chain)));
    const remove = (limit: number): Promise<number> => cutChain(options, { chain, before, limit });
    if (at < before) yield { name: "entries", remove };
  }
}

/**
 * One step. Cuts a chain before its first entry that is still kept, so old entries behind that one
 * stay for now.
 */
async function cutChain(
  { db, clock, signer }: AuditRetentionOptions,
  {
    chain,
    before,
    limit,
  }: { readonly chain: Chain; readonly before: Date; readonly limit: number },
): Promise<number> {
  const cut: ChainPosition | undefined = await findCut(db, { chain, before, limit });
  if (cut === undefined) return 0;
  const at = new Date(clock.now());
  const times = { before: before.toISOString(), at: at.toISOString() };
  const { jws: _, ...unsigned } = stubLine({ ...cut, ...times, jws: "" });
  const signature = await signText(signer, signedText(unsigned, projectOfChain(chain)));
  return await removeEntries(db, { chain, through: cut.number, before, at, ...signature });
}
