// Applies plans and budgets to new builds: refuses a build while a budget stops the app, and a new
// app that the plan does not allow.
import type { BuildReceiver } from "#apps/build-receiver.ts";
import type { Fault } from "#lib/fault.ts";
import type { AppId, AppKey, ProjectId } from "#lib/ids.ts";
import type { Tx } from "#store/database.ts";
import type { PlanUseCases } from "./plan-use-cases.ts";

/** A build or new settings of an app; with the cause `create` the app is new. */
type Received = AppKey & { readonly cause?: string };

type Admission = {
  readonly plans: PlanUseCases;
  /** Why a budget refuses the app's builds; null: it does not. */
  readonly refusal: (projectId: ProjectId, appId: AppId) => Fault | null;
};

/** A receiver that checks plans and budgets first. */
export function admittingReceiver(
  builds: BuildReceiver,
  { plans, refusal }: Admission,
): BuildReceiver {
  async function admit<Result>(
    tx: Tx,
    build: Received,
    receive: () => Promise<Result>,
  ): Promise<Result> {
    const fault = refusal(build.projectId, build.appId);
    if (fault !== null) throw fault;
    if (build.cause === "create") await plans.admitApp(tx, build.projectId);
    return await receive();
  }
  return {
    receiveBuild: (tx, build) => admit(tx, build, () => builds.receiveBuild(tx, build)),
    receiveUpload: (tx, build) => admit(tx, build, () => builds.receiveUpload(tx, build)),
    receiveSettings: (tx, settings) =>
      admit(tx, settings, () => builds.receiveSettings(tx, settings)),
    rebuild: (tx, build) => admit(tx, build, () => builds.rebuild(tx, build)),
    requestCancel: (tx, build) => builds.requestCancel(tx, build),
    endPushes: (tx, pushes) => builds.endPushes(tx, pushes),
  };
}
