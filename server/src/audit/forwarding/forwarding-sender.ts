// Runs one forwarding under its lease: sends batch after batch until the receiver has everything,
// an attempt fails, or the turn is over. A batch is recorded before it is sent and resent unchanged
// until the receiver takes it, so that duplicates have the same id.
import { entryLine, type EntryLine } from "#audit/export/export-format.ts";
import { projectOfChain, readLinks } from "#audit/export/export-store.ts";
import { platformActor, record } from "#audit/record.ts";
import { showEntry } from "#audit/shown-entry.ts";
import type { OutwardAnswer, OutwardPost } from "#lib/outward-request.ts";
import { standardSignature } from "#lib/webhook-signature.ts";
import type { Db } from "#store/database.ts";
import type { Foundation } from "#store/foundation.ts";
import type { Lease, Leases } from "#store/lease.ts";
import { judgeBatch, type BatchVerdict } from "./forwarding-schedule.ts";
import * as store from "./forwarding-store.ts";

/** The receiver of entries. `key` null: messages are unsigned. */
export type Receiver = {
  readonly url: string;
  readonly key: Buffer | null;
  readonly client: { post(url: string, post: OutwardPost): Promise<OutwardAnswer> };
};

export type SenderParts = Pick<Foundation, "db" | "clock" | "log"> & {
  readonly leases: Leases<"audit_forwardings">;
  /** Returns the receiver of a forwarding; null: it has none any more. */
  readonly receiverOf: (row: store.ForwardingRow) => Receiver | null;
  /** Timeout of one attempt; well below the lease, which is renewed before each. */
  readonly timeoutMs: number;
  /** Aborted when the platform stops. */
  readonly stopping: AbortSignal;
};

export type ForwardingLease = Lease<"audit_forwardings">;

/** The maximum number of entries of a batch, which bounds how many rows are read for it. */
const entriesMax = 500;
/**
 * The maximum size of a batch's entries: common receivers accept 1 MiB, and an entry has at most
 * 33 kB.
 */
const bytesMax = 512_000;
/** A turn ends after this many batches, so that other forwardings get a turn. */
const batchesMax = 20;
/** A turn also ends after this time, so a slow receiver gets fewer batches. */
const sendingMs = 30_000;
/** The content of the answer is not read. */
const answerBytesMax = 0;

/**
 * Sends batches, then releases the lease. Rejects when the database does not answer; the lease then
 * expires.
 */
export async function sendBatches(lease: ForwardingLease, parts: SenderParts): Promise<void> {
  const { db, leases, clock, stopping } = parts;
  const endMs = clock.monotonicMs() + sendingMs;
  for (let count = 0; count < batchesMax; count++) {
    if (stopping.aborted || clock.monotonicMs() >= endMs) break;
    if (!(await leases.renew(lease))) return;
    const [row] = await store.readForwardings(db, [lease.id]);
    const receiver = row === undefined ? null : parts.receiverOf(row);
    // The forwarding was deleted, or has no receiver any more.
    if (row === undefined || receiver === null) break;
    const isTaken = await sendBatch({ lease, row, receiver }, parts);
    if (!isTaken) break;
  }
  await leases.release(lease);
}

/** One batch of a forwarding, and where it is sent. */
type Turn = {
  readonly lease: ForwardingLease;
  readonly row: store.ForwardingRow;
  readonly receiver: Receiver;
};

/** Sends one batch; returns true when the receiver took it, and there may be more. */
async function sendBatch(turn: Turn, parts: SenderParts): Promise<boolean> {
  const { lease, row, receiver } = turn;
  const { db, leases, clock, timeoutMs, stopping } = parts;
  const [first, ...others] = await nextEntries(row, db);
  if (first === undefined) {
    // Nothing is left to send, or retention has removed what was next.
    await store.skipRemoved(db, leases.held(lease));
    return false;
  }
  const through = others.at(-1)?.number ?? first.number;
  // A batch that is sent again was recorded by an earlier attempt.
  if (row.sending_through !== through && !(await store.beginBatch(db, leases.held(lease), through)))
    return false;
  const project = projectOfChain(row.chain);
  const message = batchMessage({ forwardingId: row.id, project, entries: [first, ...others] });
  const headers = batchHeaders(message, { key: receiver.key, nowMs: clock.now() });
  const answer = await receiver.client.post(receiver.url, {
    headers,
    body: message.body,
    timeoutMs,
    answerBytesMax,
  });
  // The platform itself caused this failure by stopping.
  if (stopping.aborted && answer.kind === "failed") return false;
  const { failures, failing_since: since } = row;
  const verdict = judgeBatch({
    answer,
    failures,
    failingSinceMs: since?.getTime() ?? null,
    nowMs: clock.now(),
    random: clock.random(),
    isPausable: row.scope === "project",
  });
  if (verdict.kind === "taken") return await store.endBatch(db, leases.held(lease), through);
  await postponeOrPause(turn, verdict, parts);
  return false;
}

/** The entries of the batch in progress, which stay the same, or of a new batch. */
async function nextEntries(row: store.ForwardingRow, db: Db): Promise<EntryLine[]> {
  const { chain, position: after, sending_through: sendingThrough } = row;
  const through = sendingThrough ?? Number.MAX_SAFE_INTEGER;
  const links = await readLinks(db, { chain, after, through, limit: entriesMax });
  const lines = links.map((link) =>
    entryLine({ number: link.number, hash: link.hash, entry: showEntry(link) }),
  );
  return sendingThrough === null ? lines.slice(0, countWithin(lines, bytesMax)) : lines;
}

type FailureVerdict = Exclude<BatchVerdict, { readonly kind: "taken" }>;

async function postponeOrPause(
  { lease, row }: Turn,
  verdict: FailureVerdict,
  { db, leases, log }: SenderParts,
): Promise<void> {
  const { id, scope, chain } = row;
  const fields = { forwarding: id, scope, chain, reason: verdict.reason };
  if (verdict.kind === "again") {
    await store.postpone(db, leases.held(lease), verdict);
    // Only the first of several failures in a row is logged.
    if (row.failures === 0) log.warn(fields, "audit log entries cannot be forwarded; retrying");
    return;
  }
  const isPaused = await db.transaction().execute(async (tx) => {
    if (!(await store.pause(tx, leases.held(lease), verdict.reason))) return false;
    await recordPause(tx, row, verdict.reason);
    return true;
  });
  if (isPaused) log.warn(fields, "audit log forwarding is paused");
}

async function recordPause(tx: Db, { chain }: store.ForwardingRow, reason: string): Promise<void> {
  const projectId = projectOfChain(chain);
  const resource = { type: "project", ...(projectId === null ? {} : { id: projectId }) };
  const by = { actor: platformActor };
  await record(tx, {
    projectId,
    action: "audit_log.forwarding_pause",
    outcome: "failure",
    by,
    resource,
    reason,
  });
}

/** A message without the parts that differ per attempt. */
type BatchMessage = { readonly id: string; readonly body: Buffer };

/**
 * One message of Standard Webhooks: entries of a chain in the order of their numbers, at least one.
 * The same entries give the same bytes.
 */
function batchMessage(batch: {
  readonly forwardingId: string;
  readonly project: string | null;
  readonly entries: readonly [EntryLine, ...EntryLine[]];
}): BatchMessage {
  const { forwardingId, project, entries } = batch;
  const [first] = entries;
  const last = entries.at(-1) ?? first;
  const data = { project, entries };
  const body = JSON.stringify({ type: "audit_log.entries", timestamp: last.entry.timestamp, data });
  return { id: `audit_${forwardingId}_${first.number}-${last.number}`, body: Buffer.from(body) };
}

/** The headers of an attempt. `key` null: unsigned. */
function batchHeaders(
  message: BatchMessage,
  attempt: { readonly key: Buffer | null; readonly nowMs: number },
) {
  const seconds = Math.floor(attempt.nowMs / 1000);
  return {
    "Content-Type": "application/json",
    "webhook-id": message.id,
    "webhook-timestamp": String(seconds),
    ...(attempt.key === null
      ? {}
      : { "webhook-signature": standardSignature([attempt.key], message, seconds) }),
  };
}

/** How many of the first lines fit into `bytesMax` together; at least 1 if there is any line. */
function countWithin(lines: readonly EntryLine[], bytesMax: number): number {
  let bytes = 0;
  for (const [index, line] of lines.entries()) {
    bytes += Buffer.byteLength(JSON.stringify(line));
    if (bytes > bytesMax) return Math.max(1, index);
  }
  return lines.length;
}
