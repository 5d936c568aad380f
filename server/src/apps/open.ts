// Opens the apps area: the routes in memory, and the API's use cases for apps.
import type { AppId } from "#lib/ids.ts";
import type { Foundation } from "#store/foundation.ts";
import { appRemoval } from "./app-removal.ts";
import type { BuildReceiver } from "./build-receiver.ts";
import type { WhyNever } from "./hardware-fields.ts";
import type { GitHosts } from "./repository.ts";
import type { IsThere } from "./releases.ts";
import { Routes } from "./routes.ts";
import { useCases } from "./use-cases.ts";

type Parts = Foundation & {
  readonly receiver: BuildReceiver;
  /** Called when a person owns a new project; see `ProjectList`. */
  readonly personChanged: (personId: string) => void;
  readonly whyNever: WhyNever;
  readonly isThere: IsThere;
  /** Called after an app is removed; see `appRemoval`. */
  readonly onRemoved: () => void;
};

/** What the operator has set for this area. The contract has the type of an app's settings. */
type AppSettings = {
  /** Allowed values of the field provider. */
  readonly providers: readonly string[];
  readonly gitHosts: GitHosts;
  /** The maximum number of projects that one person may own. */
  readonly projectsPerPerson: number;
};

/** Resolves when all routes are loaded; the removal of deleted apps starts with the platform. */
export async function openApps(
  { providers, gitHosts, projectsPerPerson }: AppSettings,
  parts: Parts,
) {
  const { db, notifications, sealer, log, clock, lifecycle, onRemoved } = parts;
  const { receiver, personChanged, whyNever, isThere } = parts;
  const routes = new Routes({ db, notifications, log, clock });
  await routes.start();
  lifecycle.onClose("routes", () => routes.stop());
  const removal = appRemoval({ db, clock, log, onRemoved });
  lifecycle.onStart(() => removal.start());
  lifecycle.onClose("removal of apps", () => removal.stop());
  const onDeleted = (): void => removal.nudge();
  const refreshRoute = (appId: AppId): Promise<void> => routes.refresh(appId);
  const useCaseParts = {
    db,
    sealer,
    receiver,
    providers,
    gitHosts,
    projectsPerPerson,
    personChanged,
    whyNever,
    isThere,
    refreshRoute,
    onDeleted,
    // A cancelled build leaves files that nobody needs any more, as a removed app does.
    onCancelled: onRemoved,
    clock,
  };
  return { routes, useCases: useCases(useCaseParts) };
}
