// Bounded concurrency: so much work runs at once, of one key (a project, a receiver) no more than its share. The rest waits
// in a bounded queue: in order within a key, by turns between keys, so that a slow key holds up only itself.
import type { Clock } from "./clock.ts";

export type GateOptions = {
  /** How many are inside at once. */
  readonly max: number;
  /** Of one key; `half`: it leaves as many places to others as it takes. Without it all places may be of one key. */
  readonly keyMax?: number | "half";
  /** So many wait; who comes then is refused at once. */
  readonly waitingMax: number;
  /** Of one key. */
  readonly keyWaitingMax?: number;
  /** What `run` throws when there is no place. */
  readonly refusal?: () => Error;
};

/** Who comes; without a deadline they wait until it is their turn. */
export type GateEntry = {
  readonly key?: string;
  readonly deadline?: { readonly waitMs: number; readonly clock: Clock };
};

/** To be called at the end; a second call does nothing. */
export type Leave = () => void;

type Key = { inside: number; readonly waiting: Set<(leave: Leave | null) => void> };

/** One gate. */
export class Gate {
  readonly #options: GateOptions;
  /** Those with somebody inside or waiting, in the order in which they get the next place. */
  readonly #keys = new Map<string, Key>();
  #inside = 0;
  #waiting = 0;

  constructor(options: GateOptions) {
    this.#options = options;
  }

  /** Runs `work` inside. Throws the gate's refusal when `enter` gives null. */
  async run<Result>(work: () => Promise<Result>, entry?: GateEntry): Promise<Result> {
    const leave = await this.enter(entry);
    if (leave === null) throw this.#options.refusal?.() ?? new Error("there is no place within the gate");
    try {
      return await work();
    } finally {
      leave();
    }
  }

  /** Resolves with how to leave; with null when too many wait, at the deadline, or when the gate closes. */
  enter({ key: name = "", deadline }: GateEntry = {}): Promise<Leave | null> {
    const key = this.#keys.get(name) ?? { inside: 0, waiting: new Set() };
    if (this.#hasRoom(key)) return Promise.resolve(this.#admit(name, key));
    const { waitingMax, keyWaitingMax = waitingMax } = this.#options;
    if (this.#waiting >= waitingMax || key.waiting.size >= keyWaitingMax) return Promise.resolve(null);
    this.#keys.set(name, key);
    return new Promise((resolve) => {
      const end = (leave: Leave | null): void => {
        cancel?.();
        key.waiting.delete(end);
        this.#waiting--;
        this.#forgetIdle(name, key);
        resolve(leave);
      };
      const cancel = deadline?.clock.after(deadline.waitMs, () => end(null));
      key.waiting.add(end);
      this.#waiting++;
    });
  }

  /** How many of the key are inside. */
  countOf(key: string): number {
    return this.#keys.get(key)?.inside ?? 0;
  }

  /** Refuses all who wait. */
  close(): void {
    for (const { waiting } of this.#keys.values()) for (const end of waiting) end(null);
  }

  #hasRoom({ inside }: Key): boolean {
    const { max, keyMax = max } = this.#options;
    const free = max - this.#inside;
    return free > 0 && inside < (keyMax === "half" ? free : keyMax);
  }

  /** The key is behind all others then. */
  #admit(name: string, key: Key): Leave {
    this.#inside++;
    key.inside++;
    this.#keys.delete(name);
    this.#keys.set(name, key);
    let hasLeft = false;
    return () => {
      if (hasLeft) return;
      hasLeft = true;
      this.#inside--;
      key.inside--;
      this.#forgetIdle(name, key);
      this.#admitWaiting();
    };
  }

  #admitWaiting(): void {
    for (const [name, key] of this.#keys) {
      if (this.#waiting === 0 || this.#inside >= this.#options.max) return;
      const [first] = key.waiting;
      // Then the key comes up again behind the others.
      if (first !== undefined && this.#hasRoom(key)) first(this.#admit(name, key));
    }
  }

  #forgetIdle(name: string, key: Key): void {
    if (key.inside === 0 && key.waiting.size === 0) this.#keys.delete(name);
  }
}
