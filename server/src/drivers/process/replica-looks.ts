// Decides when one replica is looked at: soon after a file in its folder has changed, after a wait,
// and when somebody asks for it. The turns of one replica never overlap.
import { watch, type FSWatcher } from "node:fs";
import type { Clock } from "#lib/clock.ts";

export type ReplicaLooksOptions = {
  /** The replica's folder. */
  readonly dir: string;
  readonly clock: Clock;
  /** Looks at the replica once. */
  readonly turn: () => Promise<void>;
  /** Called when a turn has failed; another one follows. */
  readonly onFault: (error: unknown) => void;
};

/**
 * How often the driver asks for a look at each replica: some file systems report no changes, and
 * a killed shell makes none.
 */
export const lookEveryMs = 1000;
/** The wait before a look for a change that is expected any moment. */
const lookSoonMs = 5;
/** The minimum time between two turns because of changes: an app may write byte by byte. */
const changeMs = 10;
/** The files of the replica's folder whose changes are of interest. */
const watchedFiles = new Set(["stdout", "stderr", "state", "ready"]);

/** The turns of one replica, from `start` until `stop`. */
export class ReplicaLooks {
  readonly #options: ReplicaLooksOptions;
  #state: "new" | "started" | "stopped" = "new";
  #watcher: FSWatcher | null = null;
  #running: Promise<void> | null = null;
  /** True when a turn was asked for that has not begun yet. */
  #isWanted = false;
  /** Cancels the wait of `lookSoon`. */
  #cancelSoon: (() => void) | undefined;
  /** Cancels the wait before the look for a change. */
  #cancelChange: (() => void) | undefined;
  /** When the last look for a change began. */
  #lastChangeMs = Number.NEGATIVE_INFINITY;

  constructor(options: ReplicaLooksOptions) {
    this.#options = options;
  }

  /** Watches the folder, and looks for the first time. */
  start(): void {
    this.#state = "started";
    try {
      this.#watcher = watch(this.#options.dir, (_change, name) => {
        if (name === null || watchedFiles.has(name)) this.#onChange();
      });
      this.#watcher.on("error", () => this.#watcher?.close());
    } catch {
      // The machine has no watch left (fs.inotify.max_user_watches): the driver's looks have to be
      // enough.
    }
    this.look();
  }

  /** Looks now, or once more after the running turn. */
  look(): void {
    if (this.#state !== "started") return;
    this.#isWanted = true;
    this.#running ??= this.#turns()
      .catch((error: unknown) => this.#options.onFault(error))
      .finally(() => {
        this.#running = null;
      });
  }

  /** Looks after `waitMs`. An earlier wait that has not ended is cancelled. */
  lookSoon(waitMs = lookSoonMs): void {
    this.#cancelSoon?.();
    this.#cancelSoon = this.#options.clock.after(waitMs, () => this.look());
  }

  /** Stops looking: no other turn begins. */
  stop(): void {
    this.#state = "stopped";
    this.#watcher?.close();
    this.#cancelSoon?.();
    this.#cancelChange?.();
  }

  /** Resolves when no turn is running. */
  async settled(): Promise<void> {
    await this.#running;
  }

  async #turns(): Promise<void> {
    while (this.#isWanted && this.#state === "started") {
      this.#isWanted = false;
      await this.#options.turn();
    }
  }

  #onChange(): void {
    const { clock } = this.#options;
    if (this.#cancelChange !== undefined) return;
    const waitMs = this.#lastChangeMs + changeMs - clock.monotonicMs();
    const look = (): void => {
      this.#cancelChange = undefined;
      this.#lastChangeMs = clock.monotonicMs();
      this.look();
    };
    if (waitMs <= 0) look();
    else this.#cancelChange = clock.after(waitMs, look);
  }
}
