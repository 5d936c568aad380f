// Whether the platform answers: every request says so, and while it does not, one small request
// asks again and again. What is shown is asked for anew as soon as it does, and also when a
// computer has woken up.
import { useSyncExternalStore } from "react";

const askAgainMsMin = 1_000;
const askAgainMsMax = 10_000;
/** The maximum time of one request, also on a network that loses everything. */
const answerMsMax = 8_000;
const tickMs = 10_000;
/** A timer that is this late did not run: the computer slept. */
const sleptMs = 60_000;
/** Answers of what stands in front of a platform that is gone. */
const gatewayProblems = new Set([502, 504]);

const listeners = new Set<() => void>();
const onReturn = new Set<() => void>();
let isLost = false;

/** Called by whoever asks the platform: it has answered with this status. */
export function noteAnswer(status: number): void {
  if (gatewayProblems.has(status)) noteFailure();
  else if (isLost) becomeLost(false);
}

/** Called by whoever asks the platform: there was no answer. */
export function noteFailure(): void {
  if (isLost) return;
  becomeLost(true);
  void askUntilAnswered();
}

/**
 * Calls `listener` when the platform answers again, or when the computer has woken up. Returns how
 * to stop.
 */
export function whenBack(listener: () => void): () => void {
  onReturn.add(listener);
  return () => onReturn.delete(listener);
}

/** True while the platform does not answer. */
export function useIsLost(): boolean {
  return useSyncExternalStore(subscribe, () => isLost);
}

/** Watches the network and the clock, as long as the page is open. */
export function watchConnection(): void {
  addEventListener("offline", noteFailure);
  let lastMs = Date.now();
  setInterval(() => {
    const hasSlept = Date.now() - lastMs > sleptMs;
    lastMs = Date.now();
    if (hasSlept) for (const listener of onReturn) listener();
  }, tickMs);
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function becomeLost(next: boolean): void {
  isLost = next;
  for (const listener of listeners) listener();
  if (!next) for (const listener of onReturn) listener();
}

async function askUntilAnswered(): Promise<void> {
  for (let pauseMs = askAgainMsMin; isLost; pauseMs = Math.min(2 * pauseMs, askAgainMsMax)) {
    await new Promise((resolve) => {
      setTimeout(resolve, pauseMs);
      addEventListener("online", resolve, { once: true, signal: AbortSignal.timeout(pauseMs) });
    });
    try {
      const { status } = await fetch("/healthz", {
        cache: "no-store",
        signal: AbortSignal.timeout(answerMsMax),
      });
      // A platform that is starting answers, but serves nothing yet.
      if (status < 500) noteAnswer(status);
    } catch {
      // Still lost.
    }
  }
}
