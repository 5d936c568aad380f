// What the platform keeps of a container beside the engine: how far its log was delivered, and whether its exit was reported.
import { rmSync } from "node:fs";
import type { ReplicaLine } from "#drivers/driver.ts";
import type { ExitSummary } from "#drivers/exit-reason.ts";
import { readJson, writeIfFits } from "#drivers/json-file.ts";

/** The last message of each stream that was delivered. */
export type LogReached = Readonly<Record<ReplicaLine["stream"], string>>;

type Kept = { readonly position?: string; readonly reached?: LogReached; readonly ended?: ExitSummary };

/** The file of one replica. */
export class ContainerFile {
  readonly #path: string;
  #kept: Kept;

  constructor(path: string) {
    this.#path = path;
    this.#kept = (readJson(path) ?? {}) as Kept;
  }

  /** Messages of the log up to this time were delivered; empty: none. */
  get position(): string {
    return this.#kept.position ?? "";
  }

  get reached(): LogReached {
    return this.#kept.reached ?? { stdout: "", stderr: "" };
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
