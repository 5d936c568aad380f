// Finds the GPUs of this machine with nvidia-smi, at the start and then periodically, and measures
// their use. A card that stops answering stays listed as unusable until it answers again.
import { access, constants } from "node:fs/promises";
import { join } from "node:path";
import { runCommand } from "#lib/command.ts";
import { cardArguments, readCards, type SeenCard, type SeenCards } from "./nvidia-smi.ts";
import type { Gpu } from "./cards.ts";
import type { GpuUse } from "./pool.ts";
import type { DriverParts } from "#drivers/opened-driver.ts";

export type GpuWatchParts = Pick<DriverParts, "clock" | "log"> & {
  /** The program is found through its PATH. */
  readonly toolEnvironment: Readonly<Record<string, string>>;
};

/** How often GPUs are looked for and their use is measured. */
export const lookEveryGpuMs = 10_000;
/**
 * How long one look may take: long enough for the GPU driver to load first, as it does without
 * persistence mode.
 */
const lookMsMax = 20_000;
/** How much of the program's output is kept: far more than the rows of one machine's cards. */
const linesMax = 1_000;

/** The GPUs of this machine; one per platform. */
export class GpuWatch {
  readonly #parts: GpuWatchParts;
  /** Every card that was seen so far, in the order in which they were found. */
  readonly #cards = new Map<string, SeenCard>();
  /** The ids of the cards that do not answer. */
  readonly #lost = new Set<string>();
  #use = new Map<string, GpuUse>();
  /** The reason that was logged last: a failure, or the name of a card of no compute type. */
  #lastReason = "";

  constructor(parts: GpuWatchParts) {
    this.#parts = parts;
  }

  /** The cards that apps can ask for. */
  get gpus(): readonly Gpu[] {
    return [...this.#cards.values()].flatMap(({ id, compute, memoryGb }) =>
      compute === null ? [] : [{ id, compute, memoryGb, isUsable: !this.#lost.has(id) }],
    );
  }

  /** The measured use, by the ids of the cards. */
  get use(): ReadonlyMap<string, GpuUse> {
    return this.#use;
  }

  /** Looks once, for 20 seconds at most. Keeps what is known when the program fails. */
  async look(signal: AbortSignal): Promise<void> {
    const program = await this.#findProgram();
    if (program === null) {
      this.#logOnce("no nvidia-smi in the PATH", "no GPUs were looked for", "info");
      return;
    }
    const lines: string[] = [];
    const end = await runCommand({
      command: [program, ...cardArguments],
      cwd: "/",
      signal,
      timeoutMs: lookMsMax,
      clock: this.#parts.clock,
      environment: { ...this.#parts.toolEnvironment, LC_ALL: "C" },
      onLine: (_stream, text) => {
        if (lines.length < linesMax) lines.push(text);
      },
    });
    if (end.kind === "aborted") return;
    if (end.kind === "exited") {
      this.#update(readCards(lines, end.exitCode));
      return;
    }
    const reason =
      end.kind === "not_started" ? end.reason : `nvidia-smi did not answer (${end.kind})`;
    this.#update({ kind: "failed", reason, lost: [] });
  }

  async #findProgram(): Promise<string | null> {
    for (const folder of (this.#parts.toolEnvironment["PATH"] ?? "").split(":").filter(Boolean)) {
      const path = join(folder, "nvidia-smi");
      const isExecutable = await access(path, constants.X_OK).then(
        () => true,
        () => false,
      );
      if (isExecutable) return path;
    }
    return null;
  }

  #update(seen: SeenCards): void {
    const cards = seen.kind === "seen" ? seen.cards : [];
    if (seen.kind === "seen") {
      this.#lastReason = "";
      this.#use = new Map();
      for (const { id, use } of cards) if (use !== null) this.#use.set(id, use);
    } else {
      this.#logOnce(seen.reason, "GPUs cannot be looked at; what is known of them stays");
    }
    for (const card of cards) {
      const { id, name, compute } = card;
      if (!this.#cards.has(id)) {
        this.#parts.log.info({ id, name, compute }, "a GPU was found");
        if (compute === null)
          this.#logOnce(name, "this GPU is of no compute type, so that no app can ask for it");
      }
      this.#cards.set(id, card);
    }
    const answering = new Set(cards.map(({ id }) => id));
    for (const { id, busId } of this.#cards.values()) {
      // After a failure, lost cards stay lost; others are lost only if the output names them.
      const isGone = seen.kind === "seen" ? !answering.has(id) : this.#lost.has(id);
      this.#mark(id, isGone || seen.lost.includes(busId));
    }
  }

  #mark(id: string, isLost: boolean): void {
    if (isLost === this.#lost.has(id)) return;
    const { log } = this.#parts;
    if (isLost) log.error({ id }, "a GPU does not answer: no replica gets it until it does");
    else log.info({ id }, "a GPU answers again");
    if (isLost) this.#lost.add(id);
    else this.#lost.delete(id);
  }

  /** Logs a reason once, not at every look. */
  #logOnce(reason: string, text: string, level: "info" | "warn" = "warn"): void {
    if (this.#lastReason !== reason) this.#parts.log[level]({ reason }, text);
    this.#lastReason = reason;
  }
}
