// Log lines in the format of the API.
import type { z } from "zod";
import type { appLogPage, buildLogLine } from "@slipway/contract/answers.ts";
import { shownAppId, type BuildId } from "#lib/ids.ts";
import type { NumberedBuildLine } from "#logs/build-log-store.ts";
import type { StoredAppLine } from "#logs/app-log-store.ts";

/** A line of a build's log. Its id is unique across builds. */
export function showLine(buildId: BuildId, line: NumberedBuildLine): z.infer<typeof buildLogLine> {
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
export function showAppLine(line: StoredAppLine): z.infer<typeof appLogPage>["logs"][number] {
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
