// Pools with more than any test takes.
import { machinePool } from "#drivers/pools/machine-pool.ts";
import { Placement } from "#drivers/pools/placement.ts";

/** A placement in which every replica fits at once, with these compute types. */
export function widePlacement(compute: readonly string[] = ["CPU"]): Placement {
  const gpus = compute.flatMap((type) =>
    type === "CPU"
      ? []
      : Array.from({ length: 1000 }, (_, index) => ({
          id: `${type}-${index}`,
          compute: type,
          memoryGb: 0,
          isUsable: true,
        })),
  );
  const pool = machinePool({
    cores: 1e6,
    memoryBytes: 1e18,
    overcommit: 1,
    gpus,
    isSimulating: false,
  });
  return new Placement([{ ...pool, takesCpu: compute.includes("CPU") }]);
}
