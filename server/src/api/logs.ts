// Logs of builds and apps, in pages or live. A live log is sent as server-sent events: each line
// has its number as id, so that a client can resume after a lost connection. A build's log ends
// with an event `end`, which reports how the build ended.
import type { z } from "zod";
import type { appLogPage, buildLogLine } from "@slipway/contract/answers.ts";
import type * as answers from "@slipway/contract/answers.ts";
import { Fault } from "#lib/fault.ts";
import { shownAppId, type BuildId, type ReplicaId, type RunId } from "#lib/ids.ts";
import type { StoredAppLine } from "#logs/app-log-store.ts";
import type { NumberedBuildLine } from "#logs/build-log-store.ts";
import {
  appOf,
  buildOf,
  pageWanted,
  projectOf,
  readTime,
  type ApiCall,
  type Handlers,
} from "./call.ts";
import { streamEvents, wantsEvents } from "./event-stream.ts";
import { OwnerGate } from "./owner-gate.ts";
import type { HandlerParts } from "./parts.ts";

/**
 * Limits of searches. A search may scan millions of lines. All searches together must leave most
 * database connections to everything else.
 */
const searches = { max: 4, ownerMax: 2, ownerWaitingMax: 30, what: "logs" };

/** How often the caller's permission is checked while an app prints nothing. */
const checkEveryMs = 30_000;

/** Route handlers for logs; a followed log takes over its connection. */
export function logHandlers(parts: HandlerParts) {
  const gate = new OwnerGate(parts, searches);
  return {
    getBuildLogs: (call) =>
      wantsEvents(call) ? followBuild(call, parts) : pageOfBuild(call, parts),
    getAppLogs: (call) =>
      wantsEvents(call)
        ? followApp(call, parts)
        : gate.run(() => pageOfApp(call, parts), { projectId: projectOf(call) }),
  } satisfies Handlers;
}

async function pageOfBuild(
  call: ApiCall,
  { builds, buildLogs }: HandlerParts,
): Promise<z.infer<typeof answers.buildLogPage>> {
  const build = buildOf(call);
  // The status is read before the lines: if it says that the build has ended, no line is still to
  // come.
  const { status } = await builds.get(build);
  const after = lineNumber(call.query["nextToken"]) ?? 0;
  const { lines, hasMore } = await buildLogs.page(build.buildId, {
    after,
    limit: Number(call.query["pageSize"]),
  });
  const last = lines.at(-1);
  return {
    logs: lines.map((line) => showLine(build.buildId, line)),
    status,
    hasMore,
    ...(last === undefined || !hasMore ? {} : { nextPageToken: String(last.number) }),
  };
}

async function followBuild(call: ApiCall, parts: HandlerParts): Promise<undefined> {
  const build = buildOf(call);
  await parts.builds.get(build);
  const lastEventId = call.request.headers["last-event-id"];
  // Last-Event-ID counts first: a browser that reconnects sends it beside its original URL. Lines
  // are numbered from 1, so 0 is before the first line.
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

/**
 * Reads the number of the last line that the client saw; null: the client named none. Throws
 * `Fault("invalid")` for other texts.
 */
function lineNumber(value: unknown): number | null {
  if (value === undefined || value === null || value === "") return null;
  if (typeof value === "string" && /^\d{1,15}$/.test(value)) return Number(value);
  throw new Fault(
    "invalid",
    "nextToken and Last-Event-ID must be the number of a line of this log.",
  );
}

async function pageOfApp(
  call: ApiCall,
  { apps, appLogs }: HandlerParts,
): Promise<z.infer<typeof answers.appLogPage>> {
  const appId = appOf(call);
  await apps.require(projectOf(call), appId);
  const { query } = call;
  // The contract has validated the types and choices of the values.
  const { items, nextToken } = await appLogs.page(appId, {
    ...linesWanted(call),
    afterDate: time("afterDate", query["afterDate"]),
    beforeDate: time("beforeDate", query["beforeDate"]),
    direction: query["direction"] as "forward" | "backward",
    ...pageWanted(call),
  });
  const next = nextToken === null ? {} : { nextPageToken: nextToken };
  return { logs: items.map(showAppLine), hasMore: nextToken !== null, ...next };
}

async function followApp(
  call: ApiCall,
  { apps, appLogs, ...parts }: HandlerParts,
): Promise<undefined> {
  const projectId = projectOf(call);
  const appId = appOf(call);
  await apps.require(projectId, appId);
  for (const name of ["afterDate", "beforeDate", "nextToken"]) {
    if (call.query[name] === null) continue;
    throw new Fault(
      "invalid",
      `${name} is for pages: leave it out with follow. Last-Event-ID resumes after a line.`,
    );
  }
  if (call.query["direction"] === "backward")
    throw new Fault(
      "invalid",
      "direction is backward, but must be forward with follow: new lines come last.",
    );
  // The newest line's number is read before the client is connected, so that the client misses no
  // line that is printed after that.
  const after = lineNumber(call.request.headers["last-event-id"]) ?? (await appLogs.lastId());
  return await streamEvents(call, parts, async (send, signal) => {
    const options = { after, filter: linesWanted(call), signal };
    let checkedMs = parts.clock.monotonicMs();
    for await (const lines of appLogs.follow(appId, options)) {
      const nowMs = parts.clock.monotonicMs();
      // There are no lines when `follow` only tells that the app has printed nothing for a while.
      if (lines.length > 0 || nowMs - checkedMs >= checkEveryMs) {
        checkedMs = nowMs;
        await call.admit();
        await apps.require(projectId, appId);
      }
      const events = lines.map(
        (line) => `id: ${line.id}\ndata: ${JSON.stringify(showAppLine(line))}\n\n`,
      );
      if (events.length > 0) await send(events.join(""));
    }
  });
}

function linesWanted({ query }: ApiCall) {
  // The contract has validated the types and choices of the values.
  return {
    container: query["container"] as ReplicaId | null,
    runId: query["runId"] as RunId | null,
    stream: query["stream"] as "stdout" | "stderr" | null,
    search: query["search"] as string | null,
  };
}

/** The time of a parameter, in milliseconds since 1970; null: the query names none. */
function time(name: string, value: unknown): number | null {
  return typeof value === "string" ? readTime(name, value).getTime() : null;
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

/** A line that an app printed. A replica has no other name than its id. */
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
