// Counts the calls that the replicas of one release have worked on, so that a roll-out can compare
// releases. A count costs only a few additions for each call.
import type { CallOutcome } from "./finished-call.ts";

/** Counts since the first replica of the release; they never decrease. */
export class ReleaseTally {
  /** Calls that ended while their client was still there. */
  calls = 0;
  /** Calls that ended with status 500 or above, or broke off. */
  failures = 0;
  /** The number of seconds in which calls failed, since one crash fails many calls at once. */
  failedSeconds = 0;
  /** The latest second in which a call failed; -1: none has. */
  #lastSecond = -1;

  /** Counts a finished call. A call whose client has left says nothing about the release. */
  count(outcome: CallOutcome, status: number | null, nowMs: number): void {
    if (outcome === "client_gone") return;
    this.calls++;
    const isServerError = status !== null && status >= 500;
    if (outcome !== "cut" && !isServerError) return;
    this.failures++;
    const second = Math.floor(nowMs / 1000);
    if (second === this.#lastSecond) return;
    this.#lastSecond = second;
    this.failedSeconds++;
  }
}
