// Route handlers that read, request, cancel and repeat builds.
import type { z } from "zod";
import type * as answers from "@slipway/contract/answers.ts";
import type { Sent } from "@slipway/contract/route.ts";
import type { ReceivedBuild } from "#apps/build-receiver.ts";
import type { BuildRow } from "#apps/app-store.ts";
import { Fault } from "#lib/fault.ts";
import { type AppKey, shownAppId } from "#lib/ids.ts";
import { appOf, buildOf, projectOf, bodyOf, refOf, type Handlers } from "./call.ts";
import { buildLogUrl } from "./urls.ts";
import type { HandlerParts } from "./parts.ts";

/** Route handlers for builds. */
export function buildHandlers({ builds, urls }: HandlerParts) {
  const showReceived = (
    app: AppKey,
    { buildId, status }: Pick<ReceivedBuild, "buildId" | "status">,
  ): z.infer<typeof answers.receivedBuild> => {
    return { buildId, status, logUrl: buildLogUrl(urls(), { ...app, buildId }) };
  };
  return {
    async listBuilds(call) {
      return (await builds.list(projectOf(call), appOf(call))).map(showBuild);
    },
    async getBuild(call) {
      return showBuild(await builds.get(buildOf(call)));
    },
    async cancelBuild(call) {
      return showBuild(await builds.cancel(buildOf(call), call.by));
    },
    async createBuild(call) {
      const app = refOf(call);
      const { commit, branch } = bodyOf(call);
      if (commit && branch) {
        throw new Fault(
          "invalid",
          "commit and branch are both given, but a build is of one of them: leave one out.",
        );
      }
      // A commit or a branch that is null or empty is left out.
      const source = {
        ...(commit && { commit: String(commit) }),
        ...(branch && { branch: String(branch) }),
      };
      return showReceived(app, await builds.create(app, { ...source, by: call.by }));
    },
    async rebuild(call) {
      const build = buildOf(call);
      if (!isEmpty(call.body)) throw new Fault("invalid", rebuildBodyText);
      return showReceived(build, await builds.rebuild(build, call.by));
    },
  } satisfies Handlers;
}

const rebuildBodyText =
  "A rebuild is of the commit and with the settings of the earlier build, so its body must be empty. To build a branch or another commit, use POST …/apps/{app}/builds with branch or commit.";

function isEmpty(body: unknown): boolean {
  return body === undefined || body === null || JSON.stringify(body) === "{}";
}

function showBuild(build: BuildRow): Sent<z.infer<typeof answers.build>> {
  return { ...build, appId: shownAppId(build.appId) };
}
