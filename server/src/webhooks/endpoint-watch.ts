// A loop that pauses endpoints at which every attempt has failed for days, to waste no more
// attempts and make the owner aware. Each platform skips the endpoints that another one is pausing.
import { platformActor, record } from "#audit/record.ts";
import { Loop } from "#lib/loop.ts";
import type { Foundation } from "#store/foundation.ts";
import { pauseFailing } from "./list-store.ts";
import type { WebhookStep } from "./webhook-step.ts";

export type EndpointWatchParts = Pick<Foundation, "db" | "clock" | "log"> & {
  readonly onStep: (name: WebhookStep) => void;
};

const failingDaysMax = 5;
const dayMs = 86_400_000;
const intervalMs = 60_000;
const batchMax = 100;

/** A loop with a turn every minute; start and stop it with the platform. */
export function endpointWatch(parts: EndpointWatchParts): Loop {
  const { clock, log } = parts;
  return new Loop({
    name: "webhook endpoints",
    intervalMs,
    clock,
    log,
    turn: async (signal) => {
      let pausedCount: number;
      do {
        pausedCount = await pauseDead(parts);
      } while (pausedCount === batchMax && !signal.aborted);
    },
  });
}

/**
 * Pauses some endpoints at which every attempt has failed for five days, each with its audit row.
 * Returns how many.
 */
async function pauseDead({ db, log, onStep }: EndpointWatchParts): Promise<number> {
  const paused = await db.transaction().execute(async (tx) => {
    const rows = await pauseFailing(tx, { failingMs: failingDaysMax * dayMs, limit: batchMax });
    for (const { id, projectId, url, lastFailure } of rows) {
      await record(tx, {
        projectId,
        action: "webhook_endpoints.pause" as const,
        by: { actor: platformActor },
        resource: { type: "webhook_endpoint", id, name: url },
        reason: `Every attempt has failed for ${failingDaysMax} days. The latest failure: ${lastFailure ?? "unknown"}`,
      });
    }
    return rows;
  });
  if (paused.length === 0) return 0;
  onStep("paused");
  for (const { id, projectId } of paused)
    log.warn({ endpoint: id, project: projectId }, "paused a webhook that failed for days");
  return paused.length;
}
