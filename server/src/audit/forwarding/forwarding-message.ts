// Encodes a batch of entries for a receiver: one message of Standard Webhooks. The same entries give the same bytes, except for
// the attempt's time and the signature. Pure.
import { standardSignature } from "#lib/webhook-signature.ts";
import type { EntryLine } from "#audit/export/export-format.ts";

/** A message without the parts that differ per attempt. */
export type BatchMessage = { readonly id: string; readonly body: Buffer };

/** Entries of one chain in the order of their numbers; at least one. */
export function batchMessage(batch: {
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
export function batchHeaders(message: BatchMessage, at: { readonly key: Buffer | null; readonly nowMs: number }) {
  const seconds = Math.floor(at.nowMs / 1000);
  return {
    "Content-Type": "application/json",
    "webhook-id": message.id,
    "webhook-timestamp": String(seconds),
    ...(at.key === null ? {} : { "webhook-signature": standardSignature([at.key], message, seconds) }),
  };
}

/** How many lines fit into `bytesMax` together; at least one. */
export function countWithin(lines: readonly EntryLine[], bytesMax: number): number {
  let bytes = 0;
  for (const [index, line] of lines.entries()) {
    bytes += Buffer.byteLength(JSON.stringify(line));
    if (bytes > bytesMax) return Math.max(1, index);
  }
  return lines.length;
}
