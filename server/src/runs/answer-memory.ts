// Bounds how many bytes of answers are in memory: an answer that gets long waits on its way, at steps of its length, until
// others of that length have been written down. Whoever waits holds nothing that those ahead of it need, so that the
// longest ones always go on.
import { Gate } from "#lib/gate.ts";
import type { ProjectId } from "#lib/ids.ts";

/** Answers up to this length are collected whatever else is. */
const freeBytes = 65_536;
const stepsBytes = [1_048_576, 4 * 1_048_576];
/** Of the answers of each step together. */
const stepBytesMax = 256 * 1_048_576;
/** However long answers may be. */
const atOnceMin = 4;
/** Those that wait are runs in hand, of which there are so many at most; each is let in in the end. */
const waitingMax = Number.POSITIVE_INFINITY;

type Step = { readonly aboveBytes: number; readonly gate: Gate };

/** One for the platform. */
export class AnswerMemory {
  readonly #steps: readonly Step[];
  readonly #answerBytesMax: number;

  constructor({ answerBytesMax }: { readonly answerBytesMax: number }) {
    this.#answerBytesMax = answerBytesMax;
    const bounds = [freeBytes, ...stepsBytes.filter((bytes) => bytes < answerBytesMax), answerBytesMax];
    this.#steps = bounds.slice(0, -1).map((aboveBytes, index) => {
      const upToBytes = bounds[index + 1] ?? answerBytesMax;
      const max = Math.max(atOnceMin, Math.floor(stepBytesMax / upToBytes));
      return { aboveBytes, gate: new Gate({ max, keyMax: "half", waitingMax }) };
    });
  }

  /** A place for one answer. */
  of(projectId: ProjectId): AnswerReservation {
    return new AnswerReservation(projectId, this.#steps, this.#answerBytesMax);
  }
}

/** One answer on its way. */
export class AnswerReservation {
  readonly #projectId: ProjectId;
  readonly #steps: readonly Step[];
  readonly #bytesMax: number;
  readonly #leaves: (() => void)[] = [];
  #entered = 0;
  #hasLeft = false;

  constructor(projectId: ProjectId, steps: readonly Step[], bytesMax: number) {
    this.#projectId = projectId;
    this.#steps = steps;
    this.#bytesMax = bytesMax;
  }

  /** Told how long the answer is by now. Null: more may come; else it is to be waited for. A longer one than is kept holds nothing. */
  grow(bytes: number): Promise<void> | null {
    if (bytes > this.#bytesMax) this.leave();
    const next = this.#steps[this.#entered];
    if (this.#hasLeft || next === undefined || bytes <= next.aboveBytes) return null;
    this.#entered++;
    return next.gate.enter({ key: this.#projectId }).then((leave) => {
      if (leave === null) return;
      if (this.#hasLeft) leave();
      else this.#leaves.push(leave);
    });
  }

  /** The answer is written down, or nobody wants it. */
  leave(): void {
    this.#hasLeft = true;
    for (const leave of this.#leaves.splice(0)) leave();
  }
}
