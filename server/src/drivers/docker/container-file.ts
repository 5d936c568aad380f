// Stores what the platform must know of a container and the engine does not: how far its log was
// delivered, and whether its exit was reported.
import { rmSync } from "node:fs";
import type { ExitSummary } from "#drivers/exit-reason.ts";
import { readJson, writeIfFits } from "#drivers/json-file.ts";
import { logBegin, type LogReach } from "./log-cursor.ts";
import type { SkippedMessages } from "./skipped-output.ts";

/** Older versions of the platform ignore `parts`, but keep the field. */
type StoredState = Partial<LogReach> & {
  readonly parts?: readonly SkippedMessages[];
  readonly ended?: ExitSummary;
};

/** The file of one replica. */
export class ContainerFile {
  readonly #path: string;
  #state: StoredState;

  constructor(path: string) {
    this.#path = path;
    this.#state = (readJson(path) ?? {}) as StoredState;
  }

  /** How far the log was delivered. */
  get reach(): LogReach {
    const { position = logBegin.position, reached = logBegin.reached } = this.#state;
    return { position, reached };
  }

  /** The messages before `reach` that are still to be delivered. */
  get parts(): readonly SkippedMessages[] {
    return this.#state.parts ?? [];
  }

  /** The container's exit; null until it is reported. */
  get ended(): ExitSummary | null {
    return this.#state.ended ?? null;
  }

  /** Stores these fields and keeps the others. */
  keep(fields: StoredState): void {
    this.#state = { ...this.#state, ...fields };
    writeIfFits(this.#path, this.#state);
  }

  remove(): void {
    rmSync(this.#path, { force: true });
  }
}
