// Bounds how much work runs at once, in total and per key (a project, a receiver). Further work
// waits in a bounded queue: in order within a key, round-robin between keys, so that a slow key
// delays only itself.
import type { Clock } from "./clock.ts";

export type GateOptions = {
  /** How much work runs at once. */
  readonly max: number;
  /**
   * The maximum number of slots of one key; without it, a key may use all. `half`: a key gets a
   * slot only while it holds fewer slots than are free.
   */
  readonly keyMax?: number | "half";
  /** The maximum length of the queue; further work is refused at once. */
  readonly waitingMax: number;
  /** The maximum length of the queue of one key; without it, a key may fill the queue. */
  readonly keyWaitingMax?: number;
  /** The error that `run` throws when it gets no slot. */
  readonly refusal?: () => Error;
};

/** One entry to the gate. Without a deadline, the entry waits for its turn without a limit. */
export type GateEntry = {
  readonly key?: string;
  readonly deadline?: { readonly waitMs: number; readonly clock: Clock };
};

/** Frees the slot; a second call does nothing. */
export type Leave = () => void;

/**
 * The state of a key. `inside`: how many slots it holds. `waiting`: the functions that end the
 * waits of its entries, with or without a slot.
 */
type Key = { inside: number; readonly waiting: Set<(leave: Leave | null) => void> };

/** Slots and their queue. */
export class Gate {
  readonly #options: GateOptions;
  /** Keys with running or waiting work, in the order in which they get the next slot. */
  readonly #keys = new Map<string, Key>();
  /** How many slots all keys hold. */
  #inside = 0;
  /** How many entries of all keys wait. */
  #waiting = 0;

  constructor(options: GateOptions) {
    this.#options = options;
  }

  /** Runs `work` in a slot. Throws the gate's refusal when `enter` returns null. */
  async run<Result>(work: () => Promise<Result>, entry?: GateEntry): Promise<Result> {
    const leave = await this.enter(entry);
    if (leave === null) throw this.#options.refusal?.() ?? new Error("the gate has no free slot");
    try {
      return await work();
    } finally {
      leave();
    }
  }

  /**
   * Resolves with the function that frees the slot; with null when the queue is full, at the
   * deadline, or when the gate closes.
   */
  enter({ key: name = "", deadline }: GateEntry = {}): Promise<Leave | null> {
    const key = this.#keys.get(name) ?? { inside: 0, waiting: new Set() };
    if (this.#hasSlot(key)) return Promise.resolve(this.#admit(name, key));
    const { waitingMax, keyWaitingMax = waitingMax } = this.#options;
    if (this.#waiting >= waitingMax || key.waiting.size >= keyWaitingMax)
      return Promise.resolve(null);
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

  /** How many slots the key holds. */
  countOf(key: string): number {
    return this.#keys.get(key)?.inside ?? 0;
  }

  /** Refuses all waiting entries. */
  close(): void {
    for (const { waiting } of this.#keys.values()) for (const end of waiting) end(null);
  }

  #hasSlot({ inside }: Key): boolean {
    const { max, keyMax = max } = this.#options;
    const free = max - this.#inside;
    return free > 0 && inside < (keyMax === "half" ? free : keyMax);
  }

  /** Takes a slot for the key, and moves the key behind all others. */
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
      // `#admit` moves the key to the end, so this loop visits it again after the others.
      if (first !== undefined && this.#hasSlot(key)) first(this.#admit(name, key));
    }
  }

  #forgetIdle(name: string, key: Key): void {
    if (key.inside === 0 && key.waiting.size === 0) this.#keys.delete(name);
  }
}
