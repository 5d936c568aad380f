// Opens the apps area: the routes in memory, and all use cases of the API.
import type { Foundation } from "#store/foundation.ts";
import type { BuildReceiver } from "./build-receiver.ts";
import { Routes } from "./routes.ts";
import { useCases, type UseCases } from "./use-cases.ts";

type Parts = Foundation & { readonly receiver: BuildReceiver; readonly personChanged: (personId: string) => void };

export type OpenedApps = { readonly routes: Routes; readonly useCases: UseCases };

/** Resolves when all routes are loaded. */
export async function openApps(
  { providers }: { readonly providers: readonly string[] },
  { receiver, personChanged, db, notifications, sealer, log, clock, lifecycle }: Parts,
): Promise<OpenedApps> {
  const routes = new Routes({ db, notifications, log, clock });
  await routes.start();
  lifecycle.onClose("routes", () => routes.stop());
  return { routes, useCases: useCases({ db, sealer, receiver, providers, personChanged, clock }) };
}
