// Applies plans and budgets to new builds: accepts what the plan allows and no budget stops.
import type { BuildReceiver } from "#apps/build-receiver.ts";
import type { Fault } from "#lib/fault.ts";
import type { AppId, ProjectId } from "#lib/ids.ts";
import type { PlanUseCases } from "./plan-use-cases.ts";

/** A receiver that checks plans and budgets first. */
export function admittingReceiver(
  builds: BuildReceiver,
  {
    plans,
    refusal,
  }: { readonly plans: PlanUseCases; readonly refusal: (projectId: ProjectId, appId: AppId) => Fault | null },
): BuildReceiver {
  const requireOpen = (projectId: ProjectId, appId: AppId): void => {
    const fault = refusal(projectId, appId);
    if (fault !== null) throw fault;
  };
  return {
    async receiveBuild(tx, build) {
      requireOpen(build.projectId, build.appId);
      if (build.cause === "create") await plans.admitApp(tx, build.projectId);
      return await builds.receiveBuild(tx, build);
    },
    async receiveUpload(tx, build) {
      requireOpen(build.projectId, build.appId);
      if (build.cause === "create") await plans.admitApp(tx, build.projectId);
      return await builds.receiveUpload(tx, build);
    },
    async receiveSettings(tx, settings) {
      requireOpen(settings.projectId, settings.appId);
      return await builds.receiveSettings(tx, settings);
    },
    async rebuild(tx, build) {
      requireOpen(build.projectId, build.appId);
      return await builds.rebuild(tx, build);
    },
    requestCancel: (tx, build) => builds.requestCancel(tx, build),
    endPushes: (tx, given) => builds.endPushes(tx, given),
  };
}
