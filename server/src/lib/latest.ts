// Lets only the latest work on a thing go on: work that begins ends the earlier work on the same
// thing, and waits for its end.

type Work = { readonly control: AbortController; readonly done: Promise<unknown> };

/** By key. */
export class Latest {
  readonly #running = new Map<string, Work>();
  readonly #reason: () => Error;

  /** `reason`: what earlier work is aborted with. */
  constructor(reason: () => Error) {
    this.#reason = reason;
  }

  /** Runs `work`, which must end soon when its signal is aborted. */
  async run<Result>(key: string, work: (signal: AbortSignal) => Promise<Result>): Promise<Result> {
    for (
      let before = this.#running.get(key);
      before !== undefined;
      before = this.#running.get(key)
    ) {
      before.control.abort(this.#reason());
      await before.done;
    }
    const control = new AbortController();
    const working = work(control.signal);
    const done = working.catch(() => undefined).finally(() => this.#running.delete(key));
    this.#running.set(key, { control, done });
    return await working;
  }
}
