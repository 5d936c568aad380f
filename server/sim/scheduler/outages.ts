// Times in which the backend of the simulated world answers nothing. Their draws are their own, so
// that the rest of the world is what it was.
import type { FakeDriver } from "#test/support/fake-driver.ts";
import { Seeded } from "#test/support/seeded.ts";
import type { VirtualClock } from "#test/support/virtual-clock.ts";
import type { MemoryRow, MemoryRows } from "./memory-rows.ts";

type Parts = {
  readonly seed: number;
  readonly clock: VirtualClock;
  readonly driver: FakeDriver;
  readonly rows: MemoryRows;
};

/** One world's. */
export class Outages {
  /** How often there was one. */
  total = 0;
  readonly #parts: Parts;
  readonly #seeded: Seeded;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#seeded = new Seeded(parts.seed);
  }

  /** Now and then begins one, which ends by itself. */
  happen(): void {
    const { clock, driver } = this.#parts;
    if (driver.currentOutage !== null || !this.#seeded.chance(0.02)) return;
    this.total++;
    const outage = { sinceMs: clock.monotonicMs(), reason: "There is no answer." };
    driver.currentOutage = outage;
    clock.after(this.#seeded.integer(100, 40_000), () => {
      if (driver.currentOutage === outage) driver.currentOutage = null;
    });
  }

  end(): void {
    this.#parts.driver.currentOutage = null;
  }

  /** What breaks the promise that nothing is started meanwhile. */
  violation(): string | undefined {
    const { clock, driver, rows } = this.#parts;
    if (driver.currentOutage === null) return undefined;
    const beganAt = clock.now() - (clock.monotonicMs() - driver.currentOutage.sinceMs);
    const isOwn = ({ backend }: MemoryRow): boolean => backend.instanceId === driver.installationId;
    const late = [...rows.rows.values()].find((row) => isOwn(row) && row.createdAt > beganAt);
    return late === undefined
      ? undefined
      : `replica ${late.replicaId} was started while the backend did not answer`;
  }
}
