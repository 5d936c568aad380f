// Opens apps: their routes in memory, and all that the API does with them.
import type { Foundation } from "#store/foundation.ts";
import type { BuildReceiver } from "./build-receiver.ts";
import { Routes } from "./routes.ts";
import { useCases, type UseCases } from "./use-cases.ts";

type Parts = Foundation & { readonly receiver: BuildReceiver; readonly personChanged: (personId: string) => void };

export type OpenedApps = { readonly routes: Routes; readonly useCases: UseCases };

/** Opens them; all routes are known when this resolves. */
export async function openApps(
  { providers }: { readonly providers: readonly string[] },
  { receiver, personChanged, db, notifications, sealer, log, clock, lifecycle }: Parts,
): Promise<OpenedApps> {
  const routes = new Routes({ db, notifications, log, clock });
  await routes.start();
  lifecycle.onClose("routes", () => routes.stop());
  return { routes, useCases: useCases({ db, sealer, receiver, providers, personChanged }) };
}
