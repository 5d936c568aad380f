// The audit log for readers: pages of a project's entries, newest first, as far back as entries are
// kept.
import type { Clock } from "#lib/clock.ts";
import type { ProjectId } from "#lib/ids.ts";
import { pageOf, PageTokens, type Page } from "#lib/page-token.ts";
import type { Db } from "#store/database.ts";
import { record, type By } from "./record.ts";
import type { RetentionOf } from "./chain/audit-retention.ts";
import { listEntries, type AuditRow, type EntryCursor, type AuditOutcome } from "./audit-store.ts";
import { windowOf } from "./audit-window.ts";
import type { Instant } from "./instant.ts";

export type AuditLogOptions = {
  readonly db: Db;
  readonly clock: Clock;
  readonly retentionOf: RetentionOf;
};

/** The query that a page token is bound to: everything except the page size. */
export type AuditScope = {
  readonly projectId: ProjectId;
  readonly from: Instant | null;
  readonly to: Instant | null;
  readonly action: string | null;
  readonly actorId: string | null;
  readonly outcome: AuditOutcome | null;
};

type PageQuery = AuditScope & { readonly limit: number; readonly nextToken: string | null };

const auditTokens = new PageTokens<EntryCursor>({
  list: "audit",
  cursor: { atMicros: "number", id: "number" },
  next: "nextPageToken",
});

/** Reads entries, and records reads by the operator. */
export class AuditLog {
  readonly #options: AuditLogOptions;

  constructor(options: AuditLogOptions) {
    this.#options = options;
  }

  /** The number of days for which entries of a project are kept and shown. */
  retentionDays(projectId: ProjectId): number {
    return this.#options.retentionOf(projectId);
  }

  /**
   * Entries of a project, newest first by time and id. Throws `Fault("invalid")` when `from` is
   * after `to` or in the future, and for a page token of another query.
   */
  async page(query: PageQuery): Promise<Page<AuditRow>> {
    const { db, clock } = this.#options;
    const { projectId, action, actorId, outcome, limit, nextToken } = query;
    const window = windowOf(query, {
      nowMs: clock.now(),
      retentionDays: this.retentionDays(projectId),
    });
    const before = auditTokens.read(queryOf(query), nextToken);
    if (window === null) return { items: [], nextToken: null };
    const rows = await listEntries(db, {
      projectId,
      ...window,
      action,
      actorId,
      outcome,
      before,
      // One more row shows whether there is another page.
      limit: limit + 1,
    });
    return pageOf(rows, limit, (last) =>
      auditToken(query, { atMicros: last.at_micros, id: last.id }),
    );
  }

  /** Records in the project's log that the operator has read it, so that the owner sees this. */
  async recordRead(projectId: ProjectId, by: By): Promise<void> {
    const resource = { type: "project", id: projectId };
    await record(this.#options.db, { projectId, action: "audit_log.read", by, resource });
  }
}

/** The page token for the entries after the cursor. */
export function auditToken(scope: AuditScope, cursor: EntryCursor): string {
  return auditTokens.make(queryOf(scope), cursor);
}

/** The parts of the query, in the order in which page tokens are bound to them. */
function queryOf({ projectId, from, to, action, actorId, outcome }: AuditScope): (string | null)[] {
  const times = [from, to].map((time) => (time === null ? null : `${time.micros}.${time.rest}`));
  return [projectId, ...times, action, actorId, outcome];
}
