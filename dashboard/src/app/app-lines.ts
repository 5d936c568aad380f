// The lines of an app's log that fit a filter: the latest ones, then each one as it comes.
import { api, ask } from "#api.ts";
import { useLiveLines, type LiveLines } from "#parts/live-lines.ts";
import type { EarlierLines } from "#parts/shown-lines.ts";
import type { LogLine } from "#parts/log-view.tsx";
import { shortId } from "#parts/show.tsx";
import { pathOf, type AppRef } from "#queries.ts";

/** The maximum number of lines that the platform returns at once. */
const earlierLines = 1000;

type AppLine = {
  readonly logId: string;
  readonly timestamp: string;
  readonly logLine: string;
  readonly containerId: string;
  readonly stream: string;
};

/** Which lines. */
export type LineFilter = {
  readonly search?: string;
  readonly run?: string;
  readonly replica?: string;
  readonly stream?: string;
};

function lineOf(data: unknown): LogLine {
  const { logId, timestamp, logLine, containerId, stream } = data as AppLine;
  return { key: logId, at: timestamp, text: logLine, source: shortId(containerId), kind: stream };
}

/** The filter as the API takes it. */
function queryOf({ search, run, replica, stream }: LineFilter) {
  return {
    ...(search === undefined ? {} : { search }),
    ...(run === undefined ? {} : { runId: run }),
    ...(replica === undefined ? {} : { container: replica }),
    ...(stream === "stdout" || stream === "stderr"
      ? { stream: stream as "stdout" | "stderr" }
      : {}),
  };
}

/** Follows them as long as the page is open. */
export function useAppLines(ref: AppRef, filter: LineFilter): LiveLines {
  const text = new URLSearchParams({ ...queryOf(filter), follow: "true" }).toString();
  const path = `/v2/projects/${encodeURIComponent(ref.project)}/apps/${encodeURIComponent(ref.app)}/logs?${text}`;
  return useLiveLines({
    path,
    lineOf,
    earlier: (signal, token) => earlierOf({ ref, filter, token }, signal),
  });
}

type Page = {
  readonly ref: AppRef;
  readonly filter: LineFilter;
  readonly token: string | undefined;
};

async function earlierOf({ ref, filter, token }: Page, signal: AbortSignal): Promise<EarlierLines> {
  const query = { ...queryOf(filter), direction: "backward" as const, pageSize: earlierLines };
  const { logs, nextPageToken } = await ask(
    api.GET("/v2/projects/{project_id}/apps/{app_id}/logs", {
      params: {
        path: pathOf(ref),
        query: token === undefined ? query : { ...query, nextToken: token },
      },
      signal,
    }),
  );
  return {
    lines: logs.map(lineOf).toReversed(),
    lastId: logs[0]?.logId ?? "",
    token: nextPageToken,
  };
}
