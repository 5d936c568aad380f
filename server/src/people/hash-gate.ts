// Few passwords are hashed at a time: each takes 32 MB and a processor for a while, and whoever sends very many must not
// take both from everybody else.
import { Fault } from "#lib/fault.ts";

/** Of the four threads that Node has for such work; files and names are read by the others. */
const atOnce = 2;
/** So many take some seconds; more would be given up on by those who wait. */
const waitingMost = 60;

/** Runs at most `atOnce` at a time, in order. */
export class HashGate {
  #running = 0;
  readonly #waiting: (() => void)[] = [];

  /** Rejects with `Fault("unavailable")` when too many wait already. */
  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#running < atOnce) this.#running += 1;
    else await this.#turn();
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#running -= 1;
      else next();
    }
  }

  #turn(): Promise<void> {
    if (this.#waiting.length >= waitingMost) {
      const text = "Too many people are signing in at the moment; try again in a few seconds.";
      throw new Fault("unavailable", text, { retryAfterSeconds: 3 });
    }
    return new Promise((resolve) => this.#waiting.push(resolve));
  }
}
