// Builds: read, cancel, repeat.
import type { z } from "zod";
import type * as answers from "@slipway/contract/answers.ts";
import type { Builds, BuildView } from "#apps/builds.ts";
import { appOf, buildOf, projectOf, type Handler } from "./call.ts";
import { buildLogUrl, type Urls } from "./urls.ts";

type Parts = { readonly builds: Builds; readonly urls: () => Urls };
type Ids = "listBuilds" | "getBuild" | "cancelBuild" | "rebuild";

/** Route handlers for builds. */
export function buildHandlers({ builds, urls }: Parts): Record<Ids, Handler> {
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
    async rebuild(call) {
      const place = buildOf(call);
      const { buildId, status } = await builds.rebuild(place, call.by);
      const answer: z.infer<typeof answers.receivedBuild> = {
        buildId,
        status,
        logUrl: buildLogUrl(urls(), { ...place, buildId }),
      };
      return answer;
    },
  };
}

function showBuild(build: BuildView): z.infer<typeof answers.build> {
  return {
    id: build.buildId,
    appId: build.appId,
    number: build.number,
    cause: build.cause,
    status: build.status,
    reason: build.reason,
    commit: build.commit,
    createdAt: build.createdAt.toISOString(),
    updatedAt: build.updatedAt.toISOString(),
    startedAt: build.startedAt?.toISOString() ?? null,
    endedAt: build.endedAt?.toISOString() ?? null,
  };
}
