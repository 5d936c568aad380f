// Decides what follows the end of a run's call: its final state, or another attempt. Pure.
import type { FinalState } from "@slipway/contract/words.ts";
import { backoffMs, type Backoff } from "#lib/backoff.ts";
import { faultTable, type FaultCode } from "#lib/fault.ts";
import type { CollectedAnswer } from "#proxy/answer-collector.ts";
import type { RunEnding } from "#proxy/run-call.ts";

/** The platform that sent the call was lost, and the outcome of the call cannot be determined. */
export type Interrupted = { readonly kind: "interrupted"; readonly reason: string };

/** An answer as a plain caller would have got it. */
export type Answer = CollectedAnswer;

export type Outcome =
  | {
      readonly kind: "final";
      readonly state: FinalState;
      /**
       * The status that a plain caller would have got; null: the run was cancelled or interrupted.
       */
      readonly statusCode: number | null;
      /** Why the run did not succeed; null: it succeeded. */
      readonly reason: string | null;
      /** The answer to keep for later queries; null: the app sent none. */
      readonly result: Answer | null;
      /** The answer to send to the run's webhook; null: nothing is sent. */
      readonly forwarded: Answer | null;
    }
  | {
      readonly kind: "again";
      readonly delayMs: number;
      /** The status of the attempt that failed; null: there is none. */
      readonly statusCode: number | null;
      /** Why there is another attempt; null: for no reason that an owner needs to know. */
      readonly reason: string | null;
      /** True when the attempt counts. */
      readonly isCounted: boolean;
    };

/** What of a run the decision depends on. */
export type JudgedRun = {
  /** The number of attempts that have begun, including the one that is judged. */
  readonly attempt: number;
  readonly retriesMax: number;
  /** The time since which the run could have had a replica, in milliseconds since the epoch. */
  readonly waitsSinceMs: number;
  readonly isCancelled: boolean;
  /** True when the run's replica ends to make way for another one. */
  readonly isReclaimed?: boolean;
};

/** A run waits for a replica no longer than the 12 hours that a run may take at most. */
const waitMsMax = 12 * 3_600_000;

const retryBackoff: Backoff = { firstMs: 1_000, factor: 2, msMax: 300_000, jitter: 0.2 };
/**
 * After these faults a run waits without a time limit: a budget or a person has stopped its app, or
 * the app is gone (`not_found`), and then the removal of the app cancels the run.
 */
const waitsForOwner: ReadonlySet<FaultCode> = new Set<FaultCode>([
  "budget_reached",
  "app_stopped",
  "not_found",
]);
/**
 * The shortest pause before the next try of a run that waits for something other than an answer of
 * its app.
 */
const platformDelayMs = 1_000;
/**
 * Statuses below 500 after which a retry may succeed: the request took too long, came too early, or
 * was one of too many.
 */
const passingStatuses = new Set([408, 425, 429]);

/** Judges an ending. `random` is in [0, 1). */
export function outcomeOf(
  ending: RunEnding | Interrupted,
  run: JudgedRun,
  at: { readonly nowMs: number; readonly random: number },
): Outcome {
  const mayWaitOn = at.nowMs - run.waitsSinceMs < waitMsMax;
  const isForProtected = run.isReclaimed === true && isCutOff(ending);
  if (isForProtected && !run.isCancelled && mayWaitOn)
    return givenBack(
      platformDelayMs,
      "Its replica made way for a protected one, so the attempt does not count.",
    );
  switch (ending.kind) {
    case "answered":
      // A function that the cancel has interrupted fails, and its error says nothing.
      if (run.isCancelled && ending.status >= 500) return cancelled;
      return outcomeOfAnswer(ending, run, at.random);
    case "withdrawn":
      return run.isCancelled ? cancelled : givenBack(0, null);
    case "interrupted": {
      if (run.isCancelled) return cancelled;
      const { reason } = ending;
      const again = retried(run, { statusCode: null, reason }, at.random);
      return again ?? outcomeOfFault("failure", null, { reason });
    }
    case "failed":
      return run.isCancelled ? cancelled : outcomeOfFailure(ending, run, at);
  }
}

/**
 * True when the call may have failed because its replica ended. For cortex that includes the status
 * 503, which it answers to open calls when it ends.
 */
function isCutOff(ending: RunEnding | Interrupted): boolean {
  if (ending.kind === "interrupted") return true;
  if (ending.kind === "failed") return ending.fault.code === "replica_failed";
  return ending.kind === "answered" && ending.status === 503;
}

const cancelled: Outcome = {
  kind: "final",
  state: "cancelled",
  statusCode: null,
  reason: "It was cancelled.",
  result: null,
  forwarded: null,
};

function outcomeOfAnswer(
  answer: Extract<RunEnding, { kind: "answered" }>,
  run: JudgedRun,
  random: number,
): Outcome {
  const { status, contentType, contentFields = null, body, bodyBytes } = answer;
  const isSuccess = status >= 200 && status <= 299;
  const reason = isSuccess ? null : `The app answered with status ${status}${messageIn(answer)}.`;
  const mayPass = status >= 500 || passingStatuses.has(status);
  if (!isSuccess && !run.isCancelled && mayPass) {
    const again = retried(run, { statusCode: status, reason }, random);
    if (again !== null) return again;
  }
  const result = { status, contentType, contentFields, body, bodyBytes };
  const state = isSuccess ? "success" : "failure";
  return { kind: "final", state, statusCode: status, reason, result, forwarded: result };
}

function outcomeOfFailure(
  { fault, wasSent, why }: Extract<RunEnding, { kind: "failed" }>,
  run: JudgedRun,
  { nowMs, random }: { readonly nowMs: number; readonly random: number },
): Outcome {
  const { code, message } = fault;
  const { status } = faultTable[code];
  // The wait has no time limit: the app is not at fault, and its owner decides when its runs
  // continue.
  if (waitsForOwner.has(code)) return givenBack(platformDelayMs, message);
  if (code === "not_deployed") return outcomeOfFault("failure", status, { reason: message });
  // The app has not seen the call, so it is not at fault, whatever kept the call from a replica.
  if (!wasSent) {
    const delayMs = Math.max(platformDelayMs, (fault.retryAfterSeconds ?? 0) * 1000);
    if (nowMs - run.waitsSinceMs < waitMsMax) return givenBack(delayMs, message);
    const late = "No replica took it within 12 hours.";
    const reason = `${late} ${message}`;
    // Why a start failed may quote the app's log, and a webhook tells it whoever has called.
    return outcomeOfFault("timeout", status, {
      reason,
      message: code === "start_failed" ? late : reason,
    });
  }
  const reason = why ?? message;
  const again = retried(run, { statusCode: status, reason }, random);
  const state = code === "call_timeout" ? "timeout" : "failure";
  return again ?? outcomeOfFault(state, status, { reason, message });
}

/** Another attempt after a pause; null: no attempts are left. */
function retried(
  { attempt, retriesMax }: JudgedRun,
  why: { readonly statusCode: number | null; readonly reason: string | null },
  random: number,
): Outcome | null {
  if (attempt > retriesMax) return null;
  return {
    kind: "again",
    delayMs: backoffMs(retryBackoff, attempt, random),
    ...why,
    isCounted: true,
  };
}

function givenBack(delayMs: number, reason: string | null): Outcome {
  return { kind: "again", delayMs, statusCode: null, reason, isCounted: false };
}

/**
 * The end of a run without an answer of the app. The webhook gets what the platform would have sent
 * to a plain caller: `message`, or `reason` without it. An interrupted run has no status, so its
 * webhook gets the status of a lost replica.
 */
function outcomeOfFault(
  state: "failure" | "timeout",
  status: number | null,
  { reason, message = reason }: { readonly reason: string; readonly message?: string },
): Outcome {
  const body = Buffer.from(JSON.stringify({ message }));
  const answer = {
    status: status ?? faultTable.replica_failed.status,
    contentType: "application/json",
  };
  const forwarded = { ...answer, body, bodyBytes: body.length };
  return { kind: "final", state, statusCode: status, reason, result: null, forwarded };
}

/** A longer body is not parsed, since parsing it would block the event loop. */
const messageBytesMax = 65_536;
/** A longer message is cut off where it becomes part of a reason. */
const messageCharactersMax = 300;
/** Control characters, invisible format characters, and halves of characters. */
const unprintable = /[\p{Cc}\p{Cf}\p{Cs}]/gu;

/**
 * The app's error message in the usual form, `{"message": …}`, to complete a sentence; "" when
 * there is none.
 */
function messageIn({
  contentType,
  body,
}: {
  readonly contentType: string | null;
  readonly body: Buffer | null;
}): string {
  if (body === null || body.length > messageBytesMax) return "";
  if (contentType?.startsWith("application/json") !== true) return "";
  try {
    const value: unknown = JSON.parse(body.toString());
    const hasMessage = typeof value === "object" && value !== null && "message" in value;
    const message = hasMessage ? value.message : undefined;
    if (typeof message !== "string" || message === "") return "";
    // The sentence ends with a period of its own, so the message loses its period.
    const text = message.replaceAll(unprintable, " ").replace(/[.\s]+$/, "");
    const isShort = text.length <= messageCharactersMax;
    return isShort ? `: ${text}` : `: ${text.slice(0, messageCharactersMax)}…`;
  } catch {
    // The body is not JSON, whatever its content type says.
    return "";
  }
}
