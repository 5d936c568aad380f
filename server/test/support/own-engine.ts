// A Docker engine of one test's own, for what would disturb other tests on the engine of the run:
// ending it, filling its cache.
import { join } from "node:path";
import { cleanLast, type WithAfter } from "./clean-last.ts";
import { baseImage, openEngine } from "./docker-engine.ts";
import { runDocker, startEngine, type StartedEngine } from "./dockerd.ts";
import { temporaryFolder } from "./folder.ts";

/**
 * Has the base image. It may be ended and started again; after a restart it has the same folder and
 * address.
 */
export class OwnEngine {
  readonly #folder: string;
  readonly #isLocal: boolean;
  #current: StartedEngine;

  constructor(folder: string, isLocal: boolean, current: StartedEngine) {
    this.#folder = folder;
    this.#isLocal = isLocal;
    this.#current = current;
  }

  /** The engine as it was last started. */
  get current(): StartedEngine {
    return this.#current;
  }

  /** `SIGKILL` as if it had crashed. */
  async end(signal: "SIGTERM" | "SIGKILL"): Promise<void> {
    await this.#current.end(signal);
  }

  async start(): Promise<void> {
    this.#current = await startEngine(this.#folder, { isLocal: this.#isLocal });
  }
}

/** Ends after the test. `isLocal`: see `startEngine`. */
export async function startOwnEngine(t: WithAfter, { isLocal = true } = {}): Promise<OwnEngine> {
  const folder = temporaryFolder(t, "engine");
  const file = join(folder, "image.tar");
  runDocker(await openEngine(), "save", "--output", file, baseImage);
  const own = new OwnEngine(
    join(folder, "e"),
    isLocal,
    await startEngine(join(folder, "e"), { isLocal }),
  );
  cleanLast(t, () => own.current.stop());
  runDocker(own.current, "load", "--input", file);
  return own;
}
