// Waiting for an answer up to a deadline. What was begun goes on: nobody waits for it any more.
import type { Clock } from "./clock.ts";

/** There was no answer in time. What became of it is not known. */
export class Late extends Error {
  override readonly name = "Late";
}

/** As `answer`, but rejects with `Late` after `waitMs`. */
export async function within<Answer>(clock: Clock, waitMs: number, answer: Promise<Answer>): Promise<Answer> {
  const late = Promise.withResolvers<never>();
  const cancel = clock.after(waitMs, () => late.reject(new Late(`no answer within ${Math.round(waitMs)} ms`)));
  try {
    return await Promise.race([answer, late.promise]);
  } finally {
    cancel();
  }
}
