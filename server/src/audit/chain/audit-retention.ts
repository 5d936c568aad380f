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
 * Returns for how many days a project's entries are kept: at least 1. Answers from memory.
 * `projectId` null: entries without a project.
 */
export type RetentionOf = (projectId: ProjectId | null) => number;

/** The parts of audit retention. */
export type AuditRetentionOptions = Pick<Foundation, "db" | "clock"> & {
  readonly signer: ChainSigner;
  readonly retentionOf: RetentionOf;
};

/** Yields the steps of one turn: one for each chain that begins with an old entry. */
export async function* auditRetention(options: AuditRetentionOptions): AsyncGenerator<RemovalStep> {
  const { db, clock, retentionOf } = options;
  for (const { chain, at } of await listChainBegins(db)) {
    const before = daysAgo(clock, retentionOf(projectOfChain(chain)));
    const remove = (limit: number): Promise<number> => cutChain(options, { chain, before, limit });
    if (at < before) yield { name: "entries", remove };
  }
}

/**
 * Removes up to `limit` entries from the beginning of a chain, and stops before the first entry
 * that is not older than `before`; returns the number of removed entries. Older entries after that
 * first one stay until it may be removed too.
 */
async function cutChain(
  { db, clock, signer }: AuditRetentionOptions,
  removal: { readonly chain: Chain; readonly before: Date; readonly limit: number },
): Promise<number> {
  const { chain, before } = removal;
  const cut: ChainPosition | undefined = await findCut(db, removal);
  if (cut === undefined) return 0;
  const at = new Date(clock.now());
  const times = { before: before.toISOString(), at: at.toISOString() };
  // The signed text is made of the line without `jws`, which `stubLine` requires.
  const { jws: _, ...unsigned } = stubLine({ ...cut, ...times, jws: "" });
  const signature = await signText(signer, signedText(unsigned, projectOfChain(chain)));
  return await removeEntries(db, { chain, through: cut.number, before, at, ...signature });
}
