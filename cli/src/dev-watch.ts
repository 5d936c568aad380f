// Tells when the files of an app change, for `slipway dev`: those that a deployment would take, and
// the file with its variables.
import { statSync, watch, type FSWatcher } from "node:fs";
import { sep } from "node:path";
import { readAppFolder } from "./app-folder.ts";
import { chooseFiles, isNeverChosen } from "./chosen-files.ts";
import { errorMessage } from "./error-message.ts";
import { Refused } from "./refused.ts";

/** Editors write a file in several steps, and git many files. */
const settleMs = 150;

/** Watches one folder. */
export class DevWatch {
  readonly #folder: string;
  readonly #others: readonly string[];
  readonly #watcher: FSWatcher;
  #seen = "";
  #isTouched = false;
  #failure: Refused | null = null;
  #wake: () => void = () => undefined;
  #timer: NodeJS.Timeout | undefined;

  /** `others`: further files. Throws `Refused` when the system cannot watch so many files. */
  constructor(folder: string, others: readonly string[]) {
    this.#folder = folder;
    this.#others = others;
    try {
      this.#watcher = watch(folder, { recursive: true }, (_event, name) => {
        if (name !== null && name.split(sep).some(isNeverChosen)) return;
        clearTimeout(this.#timer);
        this.#timer = setTimeout(() => this.#touch(), settleMs);
      });
    } catch (error) {
      throw unwatchable(folder, error);
    }
    this.#watcher.on("error", (error) => {
      this.#failure = unwatchable(folder, error);
      this.#touch();
    });
  }

  /** Starts to notice changes. */
  async look(): Promise<void> {
    this.#seen = await this.#snapshot();
  }

  /**
   * Resolves at the next change since `look`, or when the signal is aborted. Throws `Refused` when
   * nothing can be watched.
   */
  async changed(signal: AbortSignal): Promise<void> {
    const onAbort = (): void => this.#wake();
    signal.addEventListener("abort", onAbort);
    try {
      while (!signal.aborted) {
        this.#isTouched = false;
        if ((await this.#snapshot()) !== this.#seen || signal.aborted) return;
        if (!this.#isTouched) await new Promise<void>((resolve) => (this.#wake = resolve));
        if (this.#failure !== null) throw this.#failure;
      }
    } finally {
      signal.removeEventListener("abort", onAbort);
    }
  }

  #touch(): void {
    this.#isTouched = true;
    this.#wake();
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#watcher.close();
  }

  /** A folder that cannot be deployed is another state too. */
  async #snapshot(): Promise<string> {
    const others = this.#others.map(
      (path) => statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0,
    );
    try {
      const { files } = await chooseFiles(readAppFolder(this.#folder));
      return JSON.stringify([
        others,
        files.map(({ path, bytes, modifiedMs }) => [path, bytes, modifiedMs]),
      ]);
    } catch (error) {
      return JSON.stringify([others, errorMessage(error)]);
    }
  }
}

function unwatchable(folder: string, error: unknown): Refused {
  const why = errorMessage(error);
  return new Refused(
    `${folder} cannot be watched: ${why}. On Linux, raise fs.inotify.max_user_watches.`,
    {
      cause: error,
    },
  );
}
