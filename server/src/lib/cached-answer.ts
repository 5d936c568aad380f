// Caches an answer that takes a moment to find. The answer is looked up on demand, and callers at
// the same time share one lookup.
import type { Clock } from "./clock.ts";
import { withDeadline } from "./with-deadline.ts";

export type CachedAnswerOptions<Answer> = {
  /** Computes the answer; must not reject. */
  readonly look: () => Promise<Answer>;
  /** How long an answer is reused. */
  readonly freshMs: number;
  /** How long a caller waits; the lookup itself continues. */
  readonly waitMs: number;
  readonly clock: Clock;
};

/** The cache of one answer. */
export class CachedAnswer<Answer> {
  readonly #options: CachedAnswerOptions<Answer>;
  /** The latest answer, and when it was found. */
  #known: { readonly answer: Answer; readonly atMs: number } | undefined;
  /** The running lookup; undefined: none runs. */
  #looking: Promise<Answer> | undefined;

  constructor(options: CachedAnswerOptions<Answer>) {
    this.#options = options;
  }

  /** The answer, or null when the lookup takes too long. Never rejects. */
  async get(): Promise<Answer | null> {
    const { clock, freshMs, waitMs } = this.#options;
    if (this.#known !== undefined && clock.monotonicMs() - this.#known.atMs < freshMs)
      return this.#known.answer;
    this.#looking ??= this.#look();
    return await withDeadline(clock, waitMs, this.#looking).catch(() => null);
  }

  async #look(): Promise<Answer> {
    const { look, clock } = this.#options;
    const answer = await look();
    this.#known = { answer, atMs: clock.monotonicMs() };
    this.#looking = undefined;
    return answer;
  }
}
