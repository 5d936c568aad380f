// Load in an open loop: calls are sent at their times, whether earlier ones are answered or not, so
// that a latency contains all waiting.
import { setTimeout as sleep } from "node:timers/promises";

/** A call, in milliseconds since the loop began. */
export type TimedCall<Answer> = {
  readonly dueMs: number;
  readonly endMs: number;
  readonly answer: Answer;
};

/**
 * How many calls per second, and until when: `isOver` gets the number of calls so far. `tickMs`:
 * calls wait up to so long until they are sent, together with others; a latency contains that too.
 */
export type OpenLoopOptions = {
  readonly rate: number;
  readonly isOver: (sent: number) => boolean;
  readonly tickMs?: number;
};

/** Resolves when all calls have ended. Rejects when one does. */
export async function openLoop<Answer>(
  call: () => Promise<Answer>,
  { rate, isOver, tickMs = 5 }: OpenLoopOptions,
): Promise<readonly TimedCall<Answer>[]> {
  const calls: Promise<TimedCall<Answer>>[] = [];
  const began = performance.now();
  const sinceBegan = (): number => performance.now() - began;
  // With jitter, so that no timer runs in step with the calls.
  const nextDueMs = (): number => ((calls.length + Math.random()) * 1000) / rate;
  const send = async (dueMs: number): Promise<TimedCall<Answer>> => {
    const answer = await call();
    return { dueMs, endMs: sinceBegan(), answer };
  };
  for (let dueMs = nextDueMs(); !isOver(calls.length); await sleep(tickMs)) {
    while (dueMs <= sinceBegan() && !isOver(calls.length)) {
      const sent = send(dueMs);
      // A failure is reported at the end.
      sent.catch(() => undefined);
      calls.push(sent);
      dueMs = nextDueMs();
    }
  }
  return await Promise.all(calls);
}
