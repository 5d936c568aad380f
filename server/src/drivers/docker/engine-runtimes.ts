// Knows which OCI runtimes the engine has: its operator may add and remove some while it runs.
import type { ContainerRuntimes } from "#drivers/container-runtimes.ts";
import { runtimesOf, type Engine } from "./engine.ts";

/** The engine's OCI runtimes. A driver has one object of this class. */
export class EngineRuntimes {
  readonly #engine: Engine;
  #now: ContainerRuntimes;

  /** `named`: the runtimes that the settings name. */
  constructor(engine: Engine, named: Omit<ContainerRuntimes, "present">) {
    this.#engine = engine;
    this.#now = { ...named, present: engine.facts.runtimes };
  }

  /** The runtimes at the time of the last look. */
  get now(): ContainerRuntimes {
    return this.#now;
  }

  /** Asks the engine. Rejects when it does not answer. */
  async look(): Promise<void> {
    this.#now = { ...this.#now, present: await runtimesOf(this.#engine) };
  }
}
