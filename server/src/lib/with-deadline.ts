// Waiting for an answer up to a deadline. What was begun goes on: nobody waits for it any more.
import type { Clock } from "./clock.ts";

/** There was no answer in time. What became of it is not known. */
export class DeadlineExceeded extends Error {
  override readonly name = "Late";
}

/** As `answer`, but rejects with `DeadlineExceeded` after `waitMs`. */
export async function withDeadline<Answer>(clock: Clock, waitMs: number, answer: Promise<Answer>): Promise<Answer> {
  const late = Promise.withResolvers<never>();
  const cancel = clock.after(waitMs, () =>
    late.reject(new DeadlineExceeded(`no answer within ${Math.round(waitMs)} ms`)),
  );
  try {
    return await Promise.race([answer, late.promise]);
  } finally {
    cancel();
  }
}
