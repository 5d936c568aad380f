// What an app prints: its latest lines, then each line as it comes, by text, run, replica and stream.
import type { ReactNode } from "react";
import { Button, NativeSelect, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { api, ask } from "#api.ts";
import { textsOf } from "#parts/form.tsx";
import { useLiveLines, type EarlierLines } from "#parts/live-lines.ts";
import { LogView, type LogLine } from "#parts/log-view.tsx";
import { shortId, useTitle } from "#parts/show.tsx";
import { pathOf, replicasQuery, type AppRef } from "#queries.ts";
import { useApp } from "./app-frame.tsx";

/** As many as the platform gives at once. */
const earlierLines = 1000;

type AppLine = {
  readonly logId: string;
  readonly timestamp: string;
  readonly logLine: string;
  readonly containerId: string;
  readonly stream: string;
};

type Filter = { readonly search?: string; readonly run?: string; readonly replica?: string; readonly stream?: string };

function lineOf(data: unknown): LogLine {
  const { logId, timestamp, logLine, containerId, stream } = data as AppLine;
  return { key: logId, at: timestamp, text: logLine, source: shortId(containerId), kind: stream };
}

/** The filter as the API takes it. */
function queryOf({ search, run, replica, stream }: Filter) {
  return {
    ...(search === undefined ? {} : { search }),
    ...(run === undefined ? {} : { runId: run }),
    ...(replica === undefined ? {} : { container: replica }),
    ...(stream === "stdout" || stream === "stderr" ? { stream: stream as "stdout" | "stderr" } : {}),
  };
}

/** The page. */
export function LogsPage(): ReactNode {
  const ref = useApp();
  const filter: Filter = useSearch({ strict: false });
  useTitle("Logs", ref.app);
  const query = queryOf(filter);
  const text = new URLSearchParams({ ...query, follow: "true" }).toString();
  const path = `/v2/projects/${encodeURIComponent(ref.project)}/apps/${encodeURIComponent(ref.app)}/logs?${text}`;
  const { lines, problem, added, isCut, onOlder, onNewest } = useLiveLines({
    ...{ path, lineOf },
    earlier: (signal, token) => earlierOf({ ref, filter, token }, signal),
  });
  return (
    <>
      <Filters filter={filter} />
      <p className="error" role="alert">
        {problem}
      </p>
      <LogView
        label="Log"
        {...{ lines, added, isCut, onOlder, onNewest }}
        empty={Object.keys(query).length === 0 ? "Nothing printed yet." : "No line fits; new ones appear here."}
      />
    </>
  );
}

type Page = { readonly ref: AppRef; readonly filter: Filter; readonly token: string | undefined };

async function earlierOf({ ref, filter, token }: Page, signal: AbortSignal): Promise<EarlierLines> {
  const query = { ...queryOf(filter), direction: "backward" as const, pageSize: earlierLines };
  const { logs, nextPageToken } = await ask(
    api.GET("/v2/projects/{project_id}/apps/{app_id}/logs", {
      params: { path: pathOf(ref), query: token === undefined ? query : { ...query, nextToken: token } },
      signal,
    }),
  );
  return { lines: logs.map(lineOf).toReversed(), lastId: logs[0]?.logId ?? "", token: nextPageToken };
}

function Filters({ filter }: { readonly filter: Filter }): ReactNode {
  const ref = useApp();
  const navigate = useNavigate();
  const replicas = useQuery(replicasQuery(ref));
  const known = replicas.data?.map(({ containerId }) => containerId) ?? [];
  const chosen = filter.replica === undefined || known.includes(filter.replica) ? known : [filter.replica, ...known];
  const change = (more: Filter): void => {
    const all = Object.entries({ ...filter, ...more }).filter(([, value]) => value !== "");
    void navigate({ to: ".", search: Object.fromEntries(all), replace: true });
  };
  return (
    <form
      className="filters"
      aria-label="Filter"
      onSubmit={(event) => {
        event.preventDefault();
        const { search = "", run = "" } = textsOf(event.currentTarget);
        change({ search: search.trim(), run: run.trim() });
      }}
    >
      <TextInput
        key={`search ${filter.search}`}
        name="search"
        label="Search"
        type="search"
        autoComplete="off"
        defaultValue={filter.search ?? ""}
      />
      <TextInput
        key={`run ${filter.run}`}
        name="run"
        label="Run"
        autoComplete="off"
        defaultValue={filter.run ?? ""}
        placeholder="run id"
      />
      <NativeSelect
        label="Replica"
        value={filter.replica ?? ""}
        data={[{ value: "", label: "all" }, ...chosen.map((id) => ({ value: id, label: shortId(id) }))]}
        onChange={(event) => change({ replica: event.currentTarget.value })}
      />
      <NativeSelect
        label="Stream"
        value={filter.stream ?? ""}
        data={[{ value: "", label: "both" }, "stdout", "stderr"]}
        onChange={(event) => change({ stream: event.currentTarget.value })}
      />
      <Button type="submit" variant="default">
        Filter
      </Button>
    </form>
  );
}
