// The log of one container as an engine keeps it: each stream in order, parts of a long line with
// one time, the oldest messages deleted; and answers to requests for it, which break off when told
// to.
import { Readable } from "node:stream";
import type { Engine } from "#drivers/docker/engine.ts";
import type { Clock } from "#lib/clock.ts";

export type EngineMessage = {
  readonly stream: "stdout" | "stderr";
  /** Nanoseconds since the epoch. */
  readonly at: bigint;
  readonly text: string;
};

type Query = {
  readonly follow: boolean;
  readonly since?: string;
  readonly until?: string;
  readonly tail?: number;
};

type Dialled = { readonly options: Query; readonly abortSignal: AbortSignal };
type Done = (error: Error | null, answer?: Readable) => void;

const billion = 1_000_000_000n;

export type EngineLogOptions = {
  /** Newer engines give all that follows the first message of the time asked for. */
  readonly isNewer: boolean;
  readonly messagesPerChunk: number;
  readonly clock: Clock;
  /** Until it begins to answer. */
  readonly answerMs: number;
};

/** The messages of one container, and the requests for them. */
export class EngineLog {
  readonly #options: EngineLogOptions;
  readonly #messages: EngineMessage[] = [];
  readonly #open = new Set<Readable>();
  readonly #waiting = new Set<() => void>();
  /** The messages before this one are deleted. */
  #first = 0;
  #isExited = false;

  constructor(options: EngineLogOptions) {
    this.#options = options;
  }

  /** What the platform sees of it. */
  get engine(): Engine {
    const { clock, answerMs } = this.#options;
    const dial = ({ options, abortSignal }: Dialled, done: Done): void => {
      const cancel = clock.after(answerMs, () => done(null, this.#answer(options)));
      abortSignal.addEventListener("abort", () => {
        cancel();
        done(new Error("aborted"));
      });
    };
    return { calls: { modem: { dial } }, streams: { modem: { dial } } } as unknown as Engine;
  }

  add(messages: readonly EngineMessage[]): void {
    this.#messages.push(...messages);
    this.#wake();
  }

  /** Returns those that it deletes: the oldest, but for the given number. */
  deleteAllBut(count: number): readonly EngineMessage[] {
    const first = Math.max(this.#first, this.#messages.length - count);
    const deleted = this.#messages.slice(this.#first, first);
    this.#first = first;
    return deleted;
  }

  /** The container has exited: answers end. */
  exit(): void {
    this.#isExited = true;
    this.#wake();
  }

  /** All answers break off, as when the engine ends. */
  breakOff(): void {
    for (const answer of this.#open) answer.destroy(new Error("the engine was restarted"));
  }

  #wake(): void {
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const wake of waiting) wake();
  }

  #answer({ follow, since = "0", until, tail = this.#messages.length }: Query): Readable {
    const sinceAt = nanoseconds(since);
    const untilAt = until === undefined ? null : nanoseconds(until);
    // It keeps open what it reads, also when that is deleted meanwhile.
    let index = Math.max(this.#first, this.#messages.length - tail);
    const end = this.#messages.length;
    let hasBegun = false;
    const isWanted = ({ at }: EngineMessage): boolean => {
      if (at >= sinceAt) hasBegun = true;
      return this.#options.isNewer ? hasBegun : at >= sinceAt;
    };
    const next = (): Buffer | "wait" | null => {
      const frames: Buffer[] = [];
      while (frames.length < this.#options.messagesPerChunk) {
        const message = this.#messages[index];
        const isEnd = message === undefined || (!follow && index >= end);
        if (isEnd && frames.length > 0) break;
        if (isEnd) return follow && !this.#isExited ? "wait" : null;
        if (untilAt !== null && message.at > untilAt)
          return frames.length === 0 ? null : Buffer.concat(frames);
        index++;
        if (isWanted(message)) frames.push(frameOf(message));
      }
      return Buffer.concat(frames);
    };
    const answer: Readable = new Readable({ read: () => give() });
    const give = (): void => {
      const chunk = next();
      if (chunk === "wait") this.#waiting.add(give);
      else answer.push(chunk);
    };
    this.#open.add(answer);
    return answer.once("close", () => {
      this.#open.delete(answer);
      this.#waiting.delete(give);
    });
  }
}

function nanoseconds(seconds: string): bigint {
  const [whole = "0", decimals = ""] = seconds.split(".");
  return BigInt(whole) * billion + BigInt(decimals.padEnd(9, "0"));
}

function frameOf({ stream, at, text }: EngineMessage): Buffer {
  const seconds = new Date(Number(at / billion) * 1000).toISOString().slice(0, -5);
  const bytes = Buffer.from(`${seconds}.${String(at % billion).padStart(9, "0")}Z ${text}`);
  const head = Buffer.alloc(8);
  head[0] = stream === "stdout" ? 1 : 2;
  head.writeUInt32BE(bytes.length, 4);
  return Buffer.concat([head, bytes]);
}
