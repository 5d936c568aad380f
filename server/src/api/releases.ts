// Route handlers that list and read releases, roll back to one, and resume automatic deploys.
import type { z } from "zod";
import type * as answers from "@slipway/contract/answers.ts";
import type { ReleaseRow } from "#apps/release-store.ts";
import { trafficOf } from "#apps/releases.ts";
import type { Actor } from "#audit/record.ts";
import { Fault } from "#lib/fault.ts";
import {
  appOf,
  pageWanted,
  pathPart,
  bodyOf,
  refOf,
  showPage,
  type ApiCall,
  type Handlers,
} from "./call.ts";
import type { HandlerParts } from "./parts.ts";

/** Route handlers for releases. */
export function releaseHandlers({ releases, shareNow }: HandlerParts) {
  const show = (call: ApiCall, release: ReleaseRow) =>
    showRelease(release, shareNow(appOf(call), release.id));
  return {
    async listReleases(call) {
      const page = await releases.page(refOf(call), pageWanted(call));
      return showPage(page, (release) => show(call, release)) satisfies z.infer<
        typeof answers.releasePage
      >;
    },
    async getRelease(call) {
      const release = await releases.get(refOf(call), numberOf(call));
      return { ...show(call, release), settings: release.settings } satisfies z.infer<
        typeof answers.oneRelease
      >;
    },
    async rollBack(call) {
      const { release } = bodyOf(call);
      const liveRelease = await releases.rollBack(refOf(call), {
        number: release as number | null,
        by: call.by,
      });
      return show(call, liveRelease);
    },
    async resumeDeploys(call) {
      await releases.resumeDeploys(refOf(call), call.by);
      return {
        message:
          "Automatic deploys are resumed: the next push is deployed. Where branches are polled, a commit that was pushed meanwhile is deployed, too.",
      };
    },
  } satisfies Handlers;
}

/**
 * The release's number in the path, written as `v3` or `3`. Throws `Fault("not_found")` for
 * anything else, and for more than nine digits, which might not fit the column of the number.
 */
function numberOf(call: ApiCall): number {
  const digits = /^v?([1-9]\d{0,8})$/.exec(pathPart(call.request, "release") ?? "")?.[1];
  if (digits === undefined)
    throw new Fault("not_found", "The app has no release with that number.");
  return Number(digits);
}

function showRelease(release: ReleaseRow, share: number | null): z.infer<typeof answers.release> {
  const by = release.created_by as Actor | null;
  return {
    number: release.number,
    id: release.id,
    state: release.state,
    endReason: release.end_reason,
    trafficPercent: trafficOf(release),
    currentPercent: share === null ? null : Math.round(share * 100),
    // A release that was once live, and whose artifact still exists, can be made live again.
    isStartable: release.promoted_at !== null && release.collected_at === null,
    cause: release.cause,
    createdBy: by === null ? null : { type: by.type, id: by.id, name: by.name },
    commit: release.commit_sha,
    commitMessage: release.commit_message,
    commitAuthor: release.commit_author,
    branch: release.branch,
    buildId: release.build_id,
    createdAt: release.created_at.toISOString(),
    promotedAt: release.promoted_at?.toISOString() ?? null,
    endedAt: release.ended_at?.toISOString() ?? null,
  };
}
