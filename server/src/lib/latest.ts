// Lets only the latest work with a key continue: it first aborts the earlier work with the same
// key, and waits for its end.

type Work = { readonly control: AbortController; readonly done: Promise<unknown> };

/** The running work, by key. */
export class Latest {
  readonly #running = new Map<string, Work>();
  readonly #reason: () => Error;

  /** `reason` makes the error with which earlier work is aborted. */
  constructor(reason: () => Error) {
    this.#reason = reason;
  }

  /** Runs `work`, which must end soon when its signal is aborted. */
  async run<Result>(key: string, work: (signal: AbortSignal) => Promise<Result>): Promise<Result> {
    // When the earlier work has ended, another call with the same key may have begun its own work.
    for (;;) {
      const earlier = this.#running.get(key);
      if (earlier === undefined) break;
      earlier.control.abort(this.#reason());
      await earlier.done;
    }
    const control = new AbortController();
    const working = work(control.signal);
    const done = working.catch(() => undefined).finally(() => this.#running.delete(key));
    this.#running.set(key, { control, done });
    return await working;
  }
}
