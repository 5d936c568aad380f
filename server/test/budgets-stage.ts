// What tests of budgets have in common: a month that does not end while they run, and money that
// was spent.
import { addToDays } from "#billing/usage/usage-sums-store.ts";
import { openAccount } from "#billing/coupons/coupon-store.ts";
import { periodOf } from "#billing/period.ts";
import type { MeteredSource } from "#billing/usage/metered-source.ts";
import { systemClock, type Clock } from "#lib/clock.ts";
import { appIdOf, type ProjectId } from "#lib/ids.ts";
import type { Db } from "#store/database.ts";

/** Stands still within a month; durations are real ones. */
export const monthClock: Clock = { ...systemClock, now: () => Date.UTC(2026, 5, 15) };
/** The month of that clock. */
export const thisMonth = periodOf(monthClock.now());

/**
 * As if metering had found that an app (the first one, unless it is named) cost so much, in that
 * month unless another is named.
 */
export async function spend(
  db: Db,
  { projectId }: { readonly projectId: ProjectId },
  given: {
    readonly cents: number;
    readonly app?: string;
    readonly month?: string;
    readonly day?: string;
  },
): Promise<void> {
  const { cents, app = "example", month = thisMonth, day = `${month}-01` } = given;
  const plain = {
    compute: "CPU",
    computeTier: "interruptible",
    provider: null,
    region: null,
  } as const;
  const source: MeteredSource = {
    id: "replica",
    kind: "run",
    projectId,
    appId: appIdOf(projectId, app),
    startMs: 0,
    endMs: 1,
    isEnded: true,
    resources: { ...plain, gpuCount: 0, coreThousandths: 1000n, gbThousandths: 1000n },
    known: [],
  };
  const change = { source, day, ms: 1n, builds: 0, micros: BigInt(cents) * 10_000n };
  await db.transaction().execute(async (tx) => {
    await openAccount(tx, projectId);
    await addToDays(tx, projectId, [change]);
  });
}
