// Lets one reader sleep until a notification or a timeout, whichever comes first. A notification
// that arrives while the reader is busy is not lost: the next wait ends at once.
import type { Clock } from "#lib/clock.ts";
import type { Channel, Notifications } from "#store/notify.ts";

/** One sleeping reader. It listens until it is disposed of. */
export class Wake implements Disposable {
  readonly #endings: readonly (() => void)[];
  #isNudged = false;
  #sleeping: AbortController | undefined;

  /** Notifications about `id` wake it, and those that tell that some were lost. */
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
    this.#endings = channels.map((channel) => notifications.listen(channel, onChange));
  }

  [Symbol.dispose](): void {
    for (const end of this.#endings) end();
  }

  /** Resolves after a notification, after `waitMs` or when `signal` is aborted. */
  async wait(waitMs: number, options: { clock: Clock; signal: AbortSignal }): Promise<void> {
    if (!this.#isNudged && !options.signal.aborted) {
      this.#sleeping = new AbortController();
      const either = AbortSignal.any([this.#sleeping.signal, options.signal]);
      // Rejects when it is woken early, as intended.
      await options.clock.sleep(waitMs, either).catch(() => undefined);
      this.#sleeping = undefined;
    }
    this.#isNudged = false;
  }
}
