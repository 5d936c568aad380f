// What tests of budgets have in common: money that was spent.
import { addToDays } from "#billing/usage-sums-store.ts";
import { openAccount } from "#billing/coupon-store.ts";
import type { Source } from "#billing/source.ts";
import { appIdOf, type ProjectId } from "#lib/ids.ts";
import type { Db } from "#store/database.ts";

/** As if metering had found that an app (the first one, unless it is named) cost so much, this month unless another is named. */
export async function spend(
  db: Db,
  { projectId }: { readonly projectId: ProjectId },
  given: { readonly cents: number; readonly app?: string; readonly month?: string },
): Promise<void> {
  const { cents, app = "example", month = new Date().toISOString().slice(0, 7) } = given;
  const plain = { compute: "CPU", computeTier: "interruptible", provider: null, region: null } as const;
  const source: Source = {
    ...{ id: "replica", kind: "run", projectId, appId: appIdOf(projectId, app), startMs: 0, endMs: 1, isEnded: true },
    resources: { ...plain, gpuCount: 0, coreThousandths: 1000n, gbThousandths: 1000n },
    known: [],
  };
  const change = { source, day: `${month}-01`, ms: 1n, builds: 0, micros: BigInt(cents) * 10_000n };
  await db.transaction().execute(async (tx) => {
    await openAccount(tx, projectId);
    await addToDays(tx, projectId, [change]);
  });
}
