// Follows how one replica starts: its shell reports that the app runs, and the cortex runtime
// reports where it listens, or why it never will.
import type { Address } from "#drivers/driver.ts";
import { readReport, readState, type ReplicaPaths, type ReplicaRecord } from "./replica-files.ts";
import { addressOf, socketError } from "./replica-listens.ts";

/** The start of one replica, as far as it was reported at the last `read`. */
export class ReplicaStart {
  readonly #paths: ReplicaPaths;
  readonly #record: ReplicaRecord;
  #isRunning = false;
  #address: Address | null = null;
  #error: string | null = null;
  /** True when no further report of the runtime needs to be read. */
  #isReported = false;

  constructor(paths: ReplicaPaths, record: ReplicaRecord) {
    this.#paths = paths;
    this.#record = record;
  }

  /** True when the app's process has started; it may have ended since. */
  get isRunning(): boolean {
    return this.#isRunning;
  }

  /** Where the replica accepts calls, now or later; null until that is known. */
  get address(): Address | null {
    return this.#address;
  }

  /** The runtime's error message when it failed to become ready. */
  get error(): string | null {
    return this.#error;
  }

  /** Reads the reports of the shell and the runtime. */
  read(): void {
    this.#isRunning ||= readState(this.#paths).isRunning;
    if (!this.#isRunning) return;
    const port = this.#readReport();
    this.#address ??= addressOf(this.#paths, this.#record, port);
  }

  /** Reads the runtime's report: keeps its error, and returns its port. */
  #readReport(): number | undefined {
    if (this.#isReported || this.#record.runtime !== "cortex") return undefined;
    const { port, error, isLast } = readReport(this.#paths);
    this.#error = error ?? null;
    // The runtime listens, so its socket must be there.
    if (error === undefined && port !== undefined)
      this.#error = socketError(this.#paths, this.#record);
    this.#isReported = isLast || this.#error !== null;
    return port;
  }
}
