// Lets only so many costly questions be asked of the database at once, by key (a project): the others wait for their
// turn, each key's own, so that one project's searches leave connections to everybody and everything else.
import { Fault } from "#lib/fault.ts";

type Waiting = { readonly begin: () => void };
type Key = { running: number; readonly line: Waiting[] };

/** Turns of all keys. */
export class Turns {
  readonly #most: number;
  readonly #mostOfKey: number;
  readonly #waitingMost: number;
  readonly #what: string;
  /** In the order in which they get the next turn. */
  readonly #keys = new Map<string, Key>();
  #running = 0;

  /** `most`: at once of all keys; `mostOfKey`: of one; `waitingMost`: of one; `what` they ask for, for the refusal. */
  constructor(options: {
    readonly most: number;
    readonly mostOfKey: number;
    readonly waitingMost: number;
    readonly what: string;
  }) {
    this.#most = options.most;
    this.#mostOfKey = options.mostOfKey;
    this.#waitingMost = options.waitingMost;
    this.#what = options.what;
  }

  /** Runs `work` when it is its turn. Throws `Fault("rate_limited")` when too many of the key wait. */
  async run<Result>(name: string, work: () => Promise<Result>): Promise<Result> {
    const key = this.#keys.get(name) ?? { running: 0, line: [] };
    this.#keys.set(name, key);
    if (key.line.length >= this.#waitingMost) {
      const message = `${key.line.length} requests of the project wait for ${this.#what} already; ask again when some are answered.`;
      throw new Fault("rate_limited", message, { retryAfterSeconds: 1 });
    }
    await new Promise<void>((begin) => {
      key.line.push({ begin });
      this.#next();
    });
    try {
      return await work();
    } finally {
      key.running--;
      this.#running--;
      if (key.running === 0 && key.line.length === 0) this.#keys.delete(name);
      this.#next();
    }
  }

  #next(): void {
    for (const [name, key] of [...this.#keys]) {
      if (this.#running >= this.#most) return;
      if (key.running >= this.#mostOfKey) continue;
      const first = key.line.shift();
      if (first === undefined) continue;
      key.running++;
      this.#running++;
      // Behind all others now.
      this.#keys.delete(name);
      this.#keys.set(name, key);
      first.begin();
    }
  }
}
