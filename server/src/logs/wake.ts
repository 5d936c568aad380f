// Lets one reader sleep until a notification or a timeout, whichever comes first. A notification
// that arrives while the reader is busy is not lost: the next wait ends at once.
import type { Clock } from "#lib/clock.ts";
import type { Channel, Notifications } from "#store/notify.ts";

/** Wakes one reader. Listens for notifications until it is disposed of. */
export class Wake implements Disposable {
  readonly #stopListening: readonly (() => void)[];
  #isNudged = false;
  #sleeping: AbortController | undefined;

  /** The reader wakes at notifications about `id`, and when notifications may have been lost. */
  constructor(
    notifications: Pick<Notifications, "listen">,
    id: string,
    ...channels: readonly Channel[]
  ) {
    const onChange = (payload: string | null): void => {
      if (payload !== null && payload !== id) return;
      this.#isNudged = true;
      this.#sleeping?.abort();
    };
    this.#stopListening = channels.map((channel) => notifications.listen(channel, onChange));
  }

  [Symbol.dispose](): void {
    for (const stop of this.#stopListening) stop();
  }

  /** Resolves after a notification, after `waitMs` or when `signal` is aborted. */
  async wait(waitMs: number, options: { clock: Clock; signal: AbortSignal }): Promise<void> {
    if (!this.#isNudged && !options.signal.aborted) {
      this.#sleeping = new AbortController();
      const wakeUp = AbortSignal.any([this.#sleeping.signal, options.signal]);
      // The sleep rejects when the reader is woken early, as intended.
      await options.clock.sleep(waitMs, wakeUp).catch(() => undefined);
      this.#sleeping = undefined;
    }
    this.#isNudged = false;
  }
}
