// The apps that people have stopped in the simulated world. Its draws are its own, so that worlds
// without stops are what they were.
import type { AppId } from "#lib/ids.ts";
import type { AppStop } from "#scheduler/allowance.ts";
import { Seeded } from "#test/support/seeded.ts";

/** One world's. */
export class Stops {
  /** How often an app was stopped. */
  total = 0;
  readonly #seeded: Seeded | null;
  readonly #stopped = new Set<AppId>();
  readonly #onChange: (appId: AppId, isStopped: boolean) => void;

  /** `seed` null: nobody stops an app. */
  constructor(seed: number | null, onChange: (appId: AppId, isStopped: boolean) => void) {
    this.#seeded = seed === null ? null : new Seeded(seed);
    this.#onChange = onChange;
  }

  has(appId: AppId): boolean {
    return this.#stopped.has(appId);
  }

  of(appId: AppId): AppStop | undefined {
    return this.#stopped.has(appId)
      ? { code: "app_stopped", reason: "The app is stopped." }
      : undefined;
  }

  /** Now and then stops one of the apps, or starts it again; true when it did. */
  happen(apps: readonly { readonly appId: AppId }[]): boolean {
    if (this.#seeded?.chance(0.1) !== true) return false;
    const { appId } = this.#seeded.pick(apps);
    const isStopped = !this.#stopped.has(appId);
    if (isStopped) this.#stopped.add(appId);
    else this.#stopped.delete(appId);
    if (isStopped) this.total++;
    this.#onChange(appId, isStopped);
    return true;
  }

  /** Starts all. */
  end(): void {
    const stopped = [...this.#stopped];
    this.#stopped.clear();
    for (const appId of stopped) this.#onChange(appId, false);
  }
}
