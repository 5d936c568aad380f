// Logs of builds and apps, in pages; a build's log also live, as server-sent events: each line has its number as id, so that a
// client can resume after a lost connection; an event `end` reports how the build ended.
import type { z } from "zod";
import type * as answers from "@slipway/contract/answers.ts";
import type { Apps } from "#apps/app.ts";
import type { Builds } from "#apps/builds.ts";
import type { ReplicaId, RunId } from "#lib/ids.ts";
import { Fault } from "#lib/fault.ts";
import type { AppLogs } from "#logs/app-log.ts";
import type { BuildLogs } from "#logs/build-log.ts";
import { appOf, buildOf, projectOf, type ApiCall, type Handler } from "./call.ts";
import { streamEvents, wantsEvents, type StreamParts } from "./event-stream.ts";
import { pageWanted } from "./list-page.ts";
import { readTime } from "./parameters.ts";
import { projectGate } from "./project-gate.ts";
import { showAppLine, showLine } from "./show-line.ts";

type Parts = StreamParts & {
  readonly apps: Apps;
  readonly builds: Builds;
  readonly buildLogs: Pick<BuildLogs, "page" | "follow">;
  readonly appLogs: Pick<AppLogs, "page">;
};

/** A search may scan millions of lines; it must leave most database connections to everything else. */
const searches = { max: 4, projectMax: 2, projectWaitingMax: 30, what: "logs" };

/** Route handlers for logs; a followed log takes over its connection. */
export function logHandlers(parts: Parts): Record<"getBuildLogs" | "getAppLogs", Handler> {
  const gate = projectGate(searches);
  return {
    getBuildLogs: (call) => (wantsEvents(call) ? followBuild(call, parts) : pageOfBuild(call, parts)),
    getAppLogs: (call) => gate.run(() => pageOfApp(call, parts), { key: projectOf(call) }),
  };
}

async function pageOfBuild(call: ApiCall, { builds, buildLogs }: Parts): Promise<z.infer<typeof answers.buildLogPage>> {
  const place = buildOf(call);
  // Read the status first: lines that arrive between the two reads then belong to a status that is still open.
  const { status } = await builds.get(place);
  const after = lineNumber(call.query["nextToken"]) ?? 0;
  const { lines, hasMore } = await buildLogs.page(place.buildId, { after, limit: Number(call.query["pageSize"]) });
  const last = lines.at(-1);
  return {
    logs: lines.map((line) => showLine(place.buildId, line)),
    status,
    hasMore,
    ...(last === undefined || !hasMore ? {} : { nextPageToken: String(last.number) }),
  };
}

async function followBuild(call: ApiCall, parts: Parts): Promise<undefined> {
  const build = buildOf(call);
  await parts.builds.get(build);
  const lastEventId = call.request.headers["last-event-id"];
  const after = lineNumber(lastEventId) ?? lineNumber(call.query["nextToken"]) ?? 0;
  return await streamEvents(call, parts, async (send, signal) => {
    for await (const lines of parts.buildLogs.follow(build.buildId, { after, signal })) {
      await call.admit();
      const events = lines.map(
        (line) => `id: ${line.number}\ndata: ${JSON.stringify(showLine(build.buildId, line))}\n\n`,
      );
      await send(events.join(""));
    }
    if (signal.aborted) return;
    const { status, reason } = await parts.builds.get(build);
    await send(`event: end\ndata: ${JSON.stringify({ status, reason })}\n\n`);
  });
}

/** The number of the last line that the client saw; null: none given. Throws `Fault("invalid")`. */
function lineNumber(given: unknown): number | null {
  if (given === undefined || given === null || given === "") return null;
  if (typeof given === "string" && /^\d{1,9}$/.test(given)) return Number(given);
  throw new Fault("invalid", "nextToken and Last-Event-ID must be the number of a line of this log.");
}

async function pageOfApp(call: ApiCall, { apps, appLogs }: Parts): Promise<z.infer<typeof answers.appLogPage>> {
  const appId = appOf(call);
  await apps.require(projectOf(call), appId);
  const { query } = call;
  // The contract has validated the types and choices of the values.
  const { items, nextToken } = await appLogs.page(appId, {
    container: query["container"] as ReplicaId | null,
    runId: query["runId"] as RunId | null,
    stream: query["stream"] as "stdout" | "stderr" | null,
    search: query["search"] as string | null,
    afterDate: time("afterDate", query["afterDate"]),
    beforeDate: time("beforeDate", query["beforeDate"]),
    direction: query["direction"] as "forward" | "backward",
    ...pageWanted(call),
  });
  return {
    logs: items.map(showAppLine),
    hasMore: nextToken !== null,
    ...(nextToken === null ? {} : { nextPageToken: nextToken }),
  };
}

function time(name: string, given: unknown): number | null {
  return typeof given === "string" ? readTime(name, given).getTime() : null;
}
