// Waits for an answer unless a signal is aborted first. The work itself continues, but nobody waits
// for it.
import { addAbortListener } from "node:events";

/**
 * Settles as `answer` does, but rejects with the reason of `signal` as soon as `signal` is aborted,
 * or if it is aborted already.
 */
export async function unlessAborted<Answer>(
  signal: AbortSignal,
  answer: Promise<Answer>,
): Promise<Answer> {
  const aborted = Promise.withResolvers<never>();
  using _listening = addAbortListener(signal, () => aborted.reject(signal.reason));
  return await Promise.race([answer, aborted.promise]);
}
