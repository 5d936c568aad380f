// Bounds the bytes of answers in memory. Lengths are divided into steps, and an answer that grows
// into the next step waits for one of the slots of that step. While it waits, it holds only slots
// of smaller steps, so answers in larger steps always progress and free their slots.
import { Gate } from "#lib/gate.ts";
import type { ProjectId } from "#lib/ids.ts";

/** Answers up to this length are collected unconditionally; the first step begins above it. */
const freeBytes = 65_536;
/** The lengths above which the second and the third step begin. */
const stepsBytes = [1_048_576, 4 * 1_048_576];
/** The maximum number of bytes of all answers within one step. */
const stepBytesMax = 256 * 1_048_576;
/** The minimum number of answers admitted per step, however long they are. */
const atOnceMin = 4;
/** Only held runs wait here, and their number is bounded; each is admitted eventually. */
const waitingMax = Number.POSITIVE_INFINITY;

/** Returns the key of the owner whose share of the slots a project's answers use. */
type OwnerKeyOf = (projectId: ProjectId) => Promise<string>;

export type AnswerMemoryOptions = {
  readonly answerBytesMax: number;
  readonly ownerKeyOf: OwnerKeyOf;
};

/** A step, with the slots for answers longer than `aboveBytes`. */
type Step = { readonly aboveBytes: number; readonly gate: Gate };

/** Limits the memory of answers; one per platform. */
export class AnswerMemory {
  readonly #steps: readonly Step[];
  readonly #options: AnswerMemoryOptions;

  constructor(options: AnswerMemoryOptions) {
    const { answerBytesMax } = options;
    this.#options = options;
    const bounds = [
      freeBytes,
      ...stepsBytes.filter((bytes) => bytes < answerBytesMax),
      answerBytesMax,
    ];
    // Each bound but the last begins a step, which ends at the next bound.
    this.#steps = bounds.slice(0, -1).map((aboveBytes, index) => {
      const upToBytes = bounds[index + 1] ?? answerBytesMax;
      const max = Math.max(atOnceMin, Math.floor(stepBytesMax / upToBytes));
      // `half`: an owner without competitors gets half of the slots, so that some stay free.
      return { aboveBytes, gate: new Gate({ max, keyMax: "half", waitingMax }) };
    });
  }

  /** Returns a reservation for one answer. */
  of(projectId: ProjectId): AnswerReservation {
    return new AnswerReservation(projectId, this.#steps, this.#options);
  }
}

/** The memory of one growing answer. */
export class AnswerReservation {
  readonly #projectId: ProjectId;
  readonly #steps: readonly Step[];
  readonly #options: AnswerMemoryOptions;
  /** Each function gives one slot back. */
  readonly #leaves: (() => void)[] = [];
  /** How many steps the answer has entered, or waits to enter. */
  #entered = 0;
  /** True once the reservation has ended: nothing is reserved any more. */
  #hasLeft = false;

  constructor(projectId: ProjectId, steps: readonly Step[], options: AnswerMemoryOptions) {
    this.#projectId = projectId;
    this.#steps = steps;
    this.#options = options;
  }

  /**
   * Called with the length so far. Returns null when the answer may continue, else a promise to
   * wait for. An answer that becomes too long to be kept gives back what it has reserved.
   */
  grow(bytes: number): Promise<void> | null {
    if (bytes > this.#options.answerBytesMax) this.leave();
    const next = this.#steps[this.#entered];
    if (this.#hasLeft || next === undefined || bytes <= next.aboveBytes) return null;
    this.#entered++;
    return this.#enter(next.gate);
  }

  /** Never rejects: while the database is away, a project counts as its own owner. */
  async #enter(gate: Gate): Promise<void> {
    const key = await this.#options.ownerKeyOf(this.#projectId).catch(() => this.#projectId);
    if (this.#hasLeft) return;
    const leave = await gate.enter({ key });
    // A gate whose queue has no limit refuses nobody.
    if (leave === null) return;
    if (this.#hasLeft) leave();
    else this.#leaves.push(leave);
  }

  /** Called when the answer is written, or is not needed. */
  leave(): void {
    this.#hasLeft = true;
    for (const leave of this.#leaves.splice(0)) leave();
  }
}
