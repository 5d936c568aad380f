// Exports the audit log of a project as one text that is produced while it is read: with constant
// memory and without a long transaction. The content is fixed at the beginning: all entries up to
// the chain's end at that time. Full NDJSON exports are ordered by number and can be verified; CSV
// and filtered exports are ordered by time.
import { record, type By } from "#audit/record.ts";
import type { AuditScope } from "#audit/audit-log.ts";
import { windowOf, type AuditWindow } from "#audit/audit-window.ts";
import type { AuditChain } from "#audit/chain/audit-chain.ts";
import type { RetentionOf } from "#audit/chain/audit-retention.ts";
import { readStub } from "#audit/chain/chain-store.ts";
import { microsFrom, timeOfMicros, type Instant } from "#audit/instant.ts";
import type { Changes } from "#audit/mask.ts";
import { showEntry } from "#audit/shown-entry.ts";
import type { ProjectId } from "#lib/ids.ts";
import { readAhead } from "#lib/read-ahead.ts";
import type { Foundation } from "#store/foundation.ts";
import { csvHead, csvLine } from "./export-csv.ts";
import {
  checkpointLine,
  entryLine,
  lineText,
  type CheckpointLine,
  type ExportFilter,
  type ExportLine,
} from "./export-format.ts";
import * as store from "./export-store.ts";

export type ExportFormat = "ndjson" | "csv";

/** The requested export; null fields do not filter. */
export type ExportWish = AuditScope & { readonly format: ExportFormat };

export type AuditExportOptions = Pick<Foundation, "db" | "clock"> & {
  readonly chain: Pick<AuditChain, "begin" | "checkpoint" | "checkpoints">;
  readonly retentionOf: RetentionOf;
};

/** The approximate length of a batch in characters: the longer the entries, the fewer it has. */
const batchLength = 1_000_000;
/** The number of entries of the first batch, and its bounds for later batches. */
const batchEntries = { first: 200, min: 20, max: 2_000 } as const;

/** Makes exports. Each is recorded as an entry, which an unfiltered export already contains. */
export class AuditExport {
  readonly #options: AuditExportOptions;

  constructor(options: AuditExportOptions) {
    this.#options = options;
  }

  /**
   * Records the export, and returns its text in parts of about a megabyte. Throws
   * `Fault("invalid")` when `from` is after `to`; reading the parts throws when the database does
   * not answer, or when retention removes entries before they are exported.
   */
  async begin(wish: ExportWish, by: By): Promise<AsyncGenerator<string>> {
    const { db, clock, retentionOf, chain } = this.#options;
    const { projectId, format } = wish;
    const window = windowOf(wish, { nowMs: clock.now(), retentionDays: retentionOf(projectId) });
    const filter = filterOf(wish);
    const resource = { type: "project", id: projectId };
    await record(db, {
      projectId,
      action: "audit_log.export",
      by,
      resource,
      changes: changesOf(format, filter),
    });
    if (format === "ndjson" && filter === null) return this.#unfiltered(projectId);
    const end = await store.readEnd(db, store.chainOf(projectId));
    const bounds = { window, end };
    if (format === "csv") return this.#csv(wish, bounds);
    const { header } = await chain.begin(db, { projectId, through: end, filter });
    return this.#filtered(header, wish, bounds);
  }

  /** The text of an unfiltered NDJSON export; it ends with a checkpoint made for this export. */
  async *#unfiltered(projectId: ProjectId): AsyncGenerator<string> {
    const { db, chain: auditChain } = this.#options;
    const chain = store.chainOf(projectId);
    const { header, stub } = await auditChain.begin(db, {
      projectId,
      filter: null,
      through: await auditChain.checkpoint(projectId),
    });
    yield textOf(stub === undefined ? [header] : [header, stub]);
    const range = { chain, after: header.after.number, through: header.through.number };
    for await (const { rows, checkpoints } of readAhead(this.#byNumber(range)))
      yield textOf(linesOf(rows, checkpoints));
  }

  /** Batches of entries in the order of their numbers, with the checkpoints among them. */
  async *#byNumber(range: {
    readonly chain: store.Chain;
    readonly after: number;
    readonly through: number;
  }): AsyncGenerator<{
    readonly rows: readonly store.LinkedRow[];
    readonly checkpoints: readonly CheckpointLine[];
  }> {
    const { db, chain: auditChain } = this.#options;
    const { chain, through } = range;
    let { after } = range;
    let limit: number = batchEntries.first;
    while (after < through) {
      const rows = await store.readLinks(db, { chain, after, through, limit });
      const last = rows.at(-1);
      // There is at most one checkpoint for each entry, so the same limit is enough.
      const numbers = { chain, after, through: last?.number ?? through, limit };
      const checkpoints = await auditChain.checkpoints(db, numbers);
      // The stub is read after the batch: if retention has not come this far by then, the batch is
      // complete. Verification finds entries that were removed in other ways.
      const stub = await readStub(db, chain);
      if (stub !== undefined && stub.number > after) {
        throw new Error(`entry ${after + 1} of ${chain} was removed while it was exported`);
      }
      if (last === undefined) return;
      yield { rows, checkpoints };
      after = last.number;
      limit = nextLimit(rows);
    }
  }

  async *#filtered(header: ExportLine, wish: ExportWish, bounds: Bounds): AsyncGenerator<string> {
    yield textOf([header]);
    for await (const rows of readAhead(this.#byTime(wish, bounds))) yield textOf(linesOf(rows, []));
  }

  async *#csv(wish: ExportWish, bounds: Bounds): AsyncGenerator<string> {
    yield csvHead;
    for await (const rows of readAhead(this.#byTime(wish, bounds)))
      yield rows.map(csvLine).join("");
  }

  /**
   * Batches of entries, oldest first by time and id, without entries that were committed after the
   * export began.
   */
  async *#byTime(wish: ExportWish, { window, end }: Bounds): AsyncGenerator<store.LinkedRow[]> {
    if (window === null) return;
    const { db } = this.#options;
    const { projectId, action, actorId, outcome } = wish;
    // All entries up to the chain's end are older than this time. Without this bound, the export
    // would also read all entries that are added meanwhile.
    const toMicros = Math.min(window.toMicros ?? Number.MAX_SAFE_INTEGER, end.atMicros);
    const { fromMicros } = window;
    const query = {
      chain: store.chainOf(projectId),
      projectId,
      action,
      actorId,
      outcome,
      fromMicros,
      toMicros,
    };
    let after: { readonly atMicros: number; readonly id: number } | null = null;
    let limit: number = batchEntries.first;
    for (;;) {
      const rows: store.LinkedRow[] = await store.readLinksByTime(db, { ...query, after, limit });
      const last = rows.at(-1);
      const rowsToEnd = rows.filter(({ number }) => number <= end.number);
      if (rowsToEnd.length > 0) yield rowsToEnd;
      if (rows.length < limit || last === undefined) return;
      after = { atMicros: last.at_micros, id: last.id };
      limit = nextLimit(rows);
    }
  }
}

/**
 * The requested period, null if all of its entries were removed, and where the chain ended when the
 * export began.
 */
type Bounds = { readonly window: AuditWindow | null; readonly end: store.ChainEnd };

function linesOf(
  rows: readonly store.LinkedRow[],
  checkpoints: readonly CheckpointLine[],
): ExportLine[] {
  const byNumber = new Map(checkpoints.map((checkpoint) => [checkpoint.number, checkpoint]));
  const lines: ExportLine[] = [];
  for (const row of rows) {
    lines.push(entryLine({ number: row.number, hash: row.hash, entry: showEntry(row) }));
    const checkpoint = byNumber.get(row.number);
    if (checkpoint !== undefined) lines.push(checkpointLine(checkpoint));
  }
  return lines;
}

function textOf(lines: readonly ExportLine[]): string {
  return lines.map((line) => `${lineText(line)}\n`).join("");
}

/** The size of the next batch, if its entries are similar to these. */
function nextLimit(rows: readonly store.LinkedRow[]): number {
  const length = rows.reduce((sum, row) => sum + lengthOf(row), 0);
  const fitting = Math.round((rows.length * batchLength) / Math.max(1, length));
  // The next entries may be much longer, so a batch is at most four times as large as the last one.
  const careful = Math.min(fitting, 4 * rows.length);
  return Math.min(batchEntries.max, Math.max(batchEntries.min, careful));
}

/** Estimates the length of a row's line in characters, without building the line. */
function lengthOf({ changes, reason }: store.LinkedRow): number {
  const changesLength = changes === null ? 0 : JSON.stringify(changes).length;
  // The other fields of a line have about 500 characters.
  return 500 + (reason?.length ?? 0) + changesLength;
}

function filterOf({ from, to, action, actorId, outcome }: ExportWish): ExportFilter | null {
  const filter = { from: timeText(from), to: timeText(to), action, actor: actorId, outcome };
  return Object.values(filter).some((value) => value !== null) ? filter : null;
}

function timeText(instant: Instant | null): string | null {
  if (instant === null) return null;
  // Negative times cannot be formatted, and no entry is older than 1970.
  const micros = microsFrom(instant);
  return timeOfMicros(micros < 0n ? 0n : micros);
}

function changesOf(format: ExportFormat, filter: ExportFilter | null): Changes {
  const changes: Record<string, { readonly new: string }> = { format: { new: format } };
  for (const [name, value] of Object.entries(filter ?? {}))
    if (value !== null) changes[name] = { new: value };
  return changes;
}
