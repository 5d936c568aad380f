// Logs of builds and apps, in pages; a build's log also live, as server-sent events: each line has its number as id, so that a
// client can resume after a lost connection; an event `end` reports how the build ended.
import type { z } from "zod";
import type { appLogPage, buildLogLine } from "@slipway/contract/answers.ts";
import type * as answers from "@slipway/contract/answers.ts";
import { Fault } from "#lib/fault.ts";
import { shownAppId, type BuildId, type ReplicaId, type RunId } from "#lib/ids.ts";
import type { StoredAppLine } from "#logs/app-log-store.ts";
import type { NumberedBuildLine } from "#logs/build-log-store.ts";
import { appOf, buildOf, pageWanted, projectOf, readTime, type ApiCall, type Handlers } from "./call.ts";
import { streamEvents, wantsEvents } from "./event-stream.ts";
import { projectGate } from "./project-gate.ts";
import type { HandlerParts } from "./parts.ts";

/** A search may scan millions of lines; it must leave most database connections to everything else. */
const searches = { max: 4, projectMax: 2, projectWaitingMax: 30, what: "logs" };

/** Route handlers for logs; a followed log takes over its connection. */
export function logHandlers(parts: HandlerParts) {
  const gate = projectGate(searches);
  return {
    getBuildLogs: (call) => (wantsEvents(call) ? followBuild(call, parts) : pageOfBuild(call, parts)),
    getAppLogs: (call) => gate.run(() => pageOfApp(call, parts), { key: projectOf(call) }),
  } satisfies Handlers;
}

async function pageOfBuild(
  call: ApiCall,
  { builds, buildLogs }: HandlerParts,
): Promise<z.infer<typeof answers.buildLogPage>> {
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

async function followBuild(call: ApiCall, parts: HandlerParts): Promise<undefined> {
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

async function pageOfApp(call: ApiCall, { apps, appLogs }: HandlerParts): Promise<z.infer<typeof answers.appLogPage>> {
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

/** A line of a build's log. Its id is unique across builds. */
function showLine(buildId: BuildId, line: NumberedBuildLine): z.infer<typeof buildLogLine> {
  return {
    id: `${buildId}-${line.number}`,
    createdAt: new Date(line.at).toISOString(),
    log: line.line,
    stage: line.stage,
    stream: line.stream,
    lineNumber: line.number,
  };
}

/** A line that an app printed. */
function showAppLine(line: StoredAppLine): z.infer<typeof appLogPage>["logs"][number] {
  return {
    appId: shownAppId(line.appId),
    projectId: line.projectId,
    runId: line.runId,
    containerId: line.replicaId,
    containerName: line.replicaId,
    logId: String(line.id),
    lineNumber: line.id,
    logLine: line.text,
    stream: line.stream,
    timestamp: new Date(line.at).toISOString(),
  };
}
