// What the platform keeps of a container beside the engine: how far its log was delivered, and
// whether its exit was reported.
import { rmSync } from "node:fs";
import type { ExitSummary } from "#drivers/exit-reason.ts";
import { readJson, writeIfFits } from "#drivers/json-file.ts";
import { logBegin, type LogReach } from "./log-cursor.ts";
import type { SkippedMessages } from "./skipped-output.ts";

/** Older versions read no parts, and leave them as they are. */
type Kept = Partial<LogReach> & {
  readonly parts?: readonly SkippedMessages[];
  readonly ended?: ExitSummary;
};

/** The file of one replica. */
export class ContainerFile {
  readonly #path: string;
  #kept: Kept;

  constructor(path: string) {
    this.#path = path;
    this.#kept = (readJson(path) ?? {}) as Kept;
  }

  /** How far the log was delivered. */
  get reach(): LogReach {
    const { position = logBegin.position, reached = logBegin.reached } = this.#kept;
    return { position, reached };
  }

  /** What before that is still to be delivered. */
  get parts(): readonly SkippedMessages[] {
    return this.#kept.parts ?? [];
  }

  /** Null until its exit is reported. */
  get ended(): ExitSummary | null {
    return this.#kept.ended ?? null;
  }

  keep(more: Kept): void {
    this.#kept = { ...this.#kept, ...more };
    writeIfFits(this.#path, this.#kept);
  }

  remove(): void {
    rmSync(this.#path, { force: true });
  }
}
