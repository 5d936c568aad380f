// Applies plans and budgets to new builds: accepts what the plan allows and no budget stops.
import type { BuildReceiver } from "#apps/build-receiver.ts";
import type { Fault } from "#lib/fault.ts";
import type { AppId, AppKey, ProjectId } from "#lib/ids.ts";
import type { Tx } from "#store/database.ts";
import type { PlanUseCases } from "./plan-use-cases.ts";

type Received = AppKey & { readonly cause?: string };

type Admission = {
  readonly plans: PlanUseCases;
  readonly refusal: (projectId: ProjectId, appId: AppId) => Fault | null;
};

/** A receiver that checks plans and budgets first. */
export function admittingReceiver(
  builds: BuildReceiver,
  { plans, refusal }: Admission,
): BuildReceiver {
  const admitted =
    <Build extends Received, Result>(receive: (tx: Tx, build: Build) => Promise<Result>) =>
    async (tx: Tx, build: Build): Promise<Result> => {
      const fault = refusal(build.projectId, build.appId);
      if (fault !== null) throw fault;
      if (build.cause === "create") await plans.admitApp(tx, build.projectId);
      return await receive(tx, build);
    };
  return {
    receiveBuild: admitted((tx, build) => builds.receiveBuild(tx, build)),
    receiveUpload: admitted((tx, build) => builds.receiveUpload(tx, build)),
    receiveSettings: admitted((tx, settings) => builds.receiveSettings(tx, settings)),
    rebuild: admitted((tx, build) => builds.rebuild(tx, build)),
    requestCancel: (tx, build) => builds.requestCancel(tx, build),
    endPushes: (tx, given) => builds.endPushes(tx, given),
  };
}
