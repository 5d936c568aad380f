// Finds out whose memory ran out when a replica was killed.
import type { ExitFacts } from "#drivers/exit-reason.ts";
import { memoryKilled } from "./cgroup.ts";
import { memoryKills } from "./process-table.ts";
import type { ReplicaRecord } from "./replica-files.ts";

/**
 * Whether memory ran out. The replica's cgroup knows; without one, only the machine's count of
 * memory kills gives a hint. `killsBefore`: that count when the replica was first seen.
 */
export function memoryFacts(
  record: Pick<ReplicaRecord, "cgroup" | "memoryGb">,
  killsBefore: number,
): Pick<ExitFacts, "memoryRanOut" | "memoryGb"> {
  const { cgroup = [] } = record;
  const memoryGb = record.memoryGb ?? null;
  if (cgroup.some(({ controller }) => controller === "memory"))
    return { memoryRanOut: memoryKilled(cgroup), memoryGb };
  return { memoryRanOut: memoryKills() > killsBefore ? "machine" : "no", memoryGb };
}
