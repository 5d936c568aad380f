// Opens the apps area: the routes in memory, and all use cases of the API.
import type { Loop } from "#lib/loop.ts";
import type { Foundation } from "#store/foundation.ts";
import { appRemoval } from "./app-removal.ts";
import type { BuildReceiver } from "./build-receiver.ts";
import { Routes } from "./routes.ts";
import { useCases, type UseCases } from "./use-cases.ts";

type Parts = Foundation & {
  readonly receiver: BuildReceiver;
  readonly personChanged: (personId: string) => void;
  /** See `SettingsChanges`. */
  readonly computeHere: () => readonly string[];
  /** See `appRemoval`. */
  readonly onRemoved: () => void;
};

/** `removal` is not started. */
export type OpenedApps = { readonly routes: Routes; readonly useCases: UseCases; readonly removal: Loop };

/** Resolves when all routes are loaded. */
export async function openApps(
  { providers }: { readonly providers: readonly string[] },
  { receiver, personChanged, computeHere, onRemoved, db, notifications, sealer, log, clock, lifecycle }: Parts,
): Promise<OpenedApps> {
  const routes = new Routes({ db, notifications, log, clock });
  await routes.start();
  lifecycle.onClose("routes", () => routes.stop());
  const removal = appRemoval({ db, clock, log, onRemoved });
  lifecycle.onClose("removal of apps", () => removal.stop());
  const onDeleted = (): void => removal.nudge();
  return {
    routes,
    removal,
    useCases: useCases({ db, sealer, receiver, providers, personChanged, computeHere, onDeleted, clock }),
  };
}
