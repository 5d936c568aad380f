// One attempt of a delivery: signs and posts it, and judges the answer. Returns the result, which
// `in-flight.ts` stores.
import type { OutwardAnswer, OutwardPost } from "#lib/outward-request.ts";
import type { Foundation } from "#store/foundation.ts";
import type { AttemptRow } from "./delivery-store.ts";
import type { Delivery, HeldDelivery } from "./delivery.ts";
import { isTrouble, judgeAttempt } from "./schedule.ts";
import { headersOf } from "./sign.ts";
import type { WebhookSigningKeys } from "./signing-keys.ts";

/** The platform's client for outgoing requests. */
export type PostClient = { post(url: string, post: OutwardPost): Promise<OutwardAnswer> };

export type AttemptParts = Pick<Foundation, "clock" | "log"> & {
  readonly keys: Pick<WebhookSigningKeys, "of">;
  readonly client: PostClient;
  /** The time limit of one attempt, from the name lookup to the end of the answer. */
  readonly timeoutMs: number;
};

/** The result of an attempt. */
export type AttemptResult = {
  readonly row: AttemptRow;
  /** True when the receiver should get fewer concurrent deliveries. */
  readonly isTrouble: boolean;
};

/** How much of the receiver's answer is kept. */
const answerBytesMax = 1024;
const reasonLengthMax = 500;

/**
 * Makes one attempt. Rejects only if no attempt was made, because the project's keys could not be
 * read.
 */
export async function attempt(
  parts: AttemptParts,
  { delivery, epoch }: HeldDelivery,
): Promise<AttemptResult> {
  const { clock } = parts;
  const { keys, schedule } = await parts.keys.of(delivery.projectId);
  const startedMs = clock.now();
  const headers = headersOf(delivery, { keys, nowMs: startedMs });
  const answer = await send(parts, delivery, headers);
  const verdict = judgeAttempt({
    schedule,
    end: answer,
    attempt: delivery.scheduleAttempts + 1,
    nowMs: clock.now(),
    random: clock.random(),
  });
  const row = {
    id: delivery.id,
    epoch,
    startedMs,
    durationMs: answer.durationMs,
    state: verdict.kind === "retry" ? ("pending" as const) : verdict.kind,
    reason: verdict.kind === "delivered" ? null : storable(verdict.reason),
    waitMs: verdict.kind === "retry" ? verdict.waitMs : 0,
    statusCode: answer.kind === "answered" ? answer.status : null,
    answer: answer.kind === "answered" ? answer.firstBytes : null,
  };
  return { row, isTrouble: isTrouble(answer) };
}

async function send(
  { client, clock, log, timeoutMs }: AttemptParts,
  { id, url, body }: Delivery,
  headers: Record<string, string>,
): Promise<OutwardAnswer> {
  const startedMs = clock.monotonicMs();
  try {
    return await client.post(url, { headers, body, timeoutMs, answerBytesMax });
  } catch (error) {
    // `post` returns failures, so an error is a bug. It counts as a failed attempt, so that the
    // schedule ends the delivery, which would otherwise be retried forever.
    log.error({ err: error, delivery: id }, "a webhook could not be sent");
    const durationMs = clock.monotonicMs() - startedMs;
    return { kind: "failed", reason: "The platform failed to send it; see its log.", durationMs };
  }
}

/** Makes a reason, which may quote a receiver or a resolver, storable in the database. */
function storable(reason: string): string {
  return reason.replaceAll("\0", "").toWellFormed().slice(0, reasonLengthMax);
}
