// Sends budget notices: mail to owners, and posts to a budget's URL. Each stored notice is sent at
// least once, by any process; a failed one is retried for some hours.
import { errorMessage } from "#lib/error-message.ts";
import { backoffMs, type Backoff } from "#lib/backoff.ts";
import { Loop } from "#lib/loop.ts";
import type { OutwardClient } from "#lib/outward-request.ts";
import type { Foundation } from "#store/foundation.ts";
import { delayNotice, removeNotice, takeNotices, type DueNotice } from "./budget-store.ts";

/** Sends mail; the area `people` implements it. */
export interface OwnerMail {
  send(mail: {
    readonly to: string;
    readonly subject: string;
    readonly text: string;
  }): Promise<unknown>;
}

export type BudgetNoticesParts = Pick<Foundation, "db" | "clock" | "log"> & {
  readonly client: Pick<OutwardClient, "post">;
  /** Null: mail is not configured. */
  readonly mail: OwnerMail | null;
};

/** How often due notices are looked for; a new notice nudges the loop. */
const intervalMs = 30_000;
const batchMax = 20;
const postWaitMs = 15_000;
/** The answer's content is not used. */
const answerBytesMax = 1_024;
/** How long a process holds a batch of notices: longer than sending takes when nobody answers. */
const holdMs = batchMax * postWaitMs + 60_000;
/** With the waits below, the last attempt is made after five hours. */
const attemptsMax = 12;
const retryWaits: Backoff = { firstMs: 30_000, factor: 2, msMax: 3_600_000, jitter: 0.2 };

/** Creates the loop; `start` and `stop` it with the platform, `nudge` it when there are notices. */
export function budgetNotices(parts: BudgetNoticesParts): Loop {
  const { clock, log } = parts;
  const turn = (signal: AbortSignal): Promise<void> => sendDue(parts, signal);
  return new Loop({ name: "budget notices", intervalMs, turn, clock, log });
}

async function sendDue(parts: BudgetNoticesParts, signal: AbortSignal): Promise<void> {
  const { db } = parts;
  while (!signal.aborted) {
    const due = await takeNotices(db, { limit: batchMax, holdMs });
    for (const notice of due) await sendOne(parts, notice);
    if (due.length < batchMax) return;
  }
}

async function sendOne(parts: BudgetNoticesParts, notice: DueNotice): Promise<void> {
  const { db, clock, log } = parts;
  const { id, kind, attempts } = notice;
  const problem = await trySend(parts, notice);
  if (problem === null) return await removeNotice(db, id);
  log.warn({ noticeId: id, kind, attempts, problem }, "a budget notification could not be sent");
  if (attempts >= attemptsMax) await removeNotice(db, id);
  else await delayNotice(db, id, backoffMs(retryWaits, attempts, clock.random()));
}

/** Tries to send a notice; returns why it could not be sent, or null. */
async function trySend(
  { client, mail }: BudgetNoticesParts,
  { kind, target, content }: DueNotice,
): Promise<string | null> {
  if (kind === "webhook") {
    const body = Buffer.from(JSON.stringify(content));
    const headers = { "Content-Type": "application/json" };
    const answer = await client.post(target, {
      headers,
      body,
      timeoutMs: postWaitMs,
      answerBytesMax,
    });
    if (answer.kind === "failed") return answer.reason;
    return answer.status >= 200 && answer.status <= 299
      ? null
      : `it was answered with status ${answer.status}`;
  }
  // Mail was configured when the notice was stored, but is no longer: the notice is dropped.
  if (mail === null) return null;
  // `budget-step.ts` wrote the row's content.
  const { subject, text } = content as { readonly subject: string; readonly text: string };
  try {
    await mail.send({ to: target, subject, text });
    return null;
  } catch (error) {
    return errorMessage(error);
  }
}
