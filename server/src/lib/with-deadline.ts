// Waits for an answer up to a deadline. The work itself continues, but nobody waits for it.
import type { Clock } from "./clock.ts";

/** The error of an answer that did not arrive in time. The outcome of the work is unknown. */
export class DeadlineExceeded extends Error {
  override readonly name = "DeadlineExceeded";
}

/** Settles as `answer` does, but rejects with `DeadlineExceeded` after `waitMs`. */
export async function withDeadline<Answer>(
  clock: Clock,
  waitMs: number,
  answer: Promise<Answer>,
): Promise<Answer> {
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

/** Waits for the end of the work, but no longer than `waitMs`. Rejects as the work does. */
export async function waitUpTo(
  clock: Clock,
  waitMs: number,
  work: Promise<unknown>,
): Promise<void> {
  await withDeadline(clock, waitMs, work).catch((error: unknown) => {
    if (!(error instanceof DeadlineExceeded)) throw error;
  });
}
