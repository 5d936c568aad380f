// One build: its state, and its log as it is written, with a search.
import type { ReactNode } from "react";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { api, ask } from "#api.ts";
import { Action } from "#parts/form.tsx";
import { useLiveLines } from "#parts/live-lines.ts";
import { LogView, type LogLine } from "#parts/log-view.tsx";
import { Name } from "#parts/name.tsx";
import { SearchField } from "#parts/search-field.tsx";
import { counted } from "#parts/quantities.ts";
import { Answer, Facts, State, Time, useTitle } from "#parts/show.tsx";
import { useMay } from "#permissions.ts";
import { pathOf, queryClient, refreshMs, type AppRef } from "#queries.ts";
import { useApp } from "./app-frame.tsx";
import { Commit, tookOf } from "./builds-page.tsx";

type BuildRef = AppRef & { readonly build: string };

const buildPath = "/v2/projects/{project_id}/apps/{app_id}/builds/{build_id}";
const paramsOf = (ref: BuildRef) => ({ path: { ...pathOf(ref), build_id: ref.build } });

function lineOf(data: unknown): LogLine {
  const line = data as {
    id: string;
    createdAt: string;
    log: string;
    stage: string;
    stream: string;
  };
  return {
    key: line.id,
    at: line.createdAt,
    text: line.log,
    source: line.stage,
    kind: line.stream,
  };
}

/** The page. */
export function BuildPage(): ReactNode {
  const { build: id = "" } = useParams({ strict: false });
  const ref = { ...useApp(), build: id };
  const build = useQuery({
    queryKey: ["build", ref],
    queryFn: ({ signal }) => ask(api.GET(buildPath, { params: paramsOf(ref), signal })),
    refetchInterval: ({ state }) => (typeof state.data?.endedAt === "string" ? false : refreshMs),
  });
  useTitle("Build", ref.app);
  return (
    <Answer of={build}>
      {(detail) => (
        <>
          <div className="title">
            <h2>Build #{detail.number}</h2>
            <Changes of={ref} isOver={detail.endedAt !== null} />
          </div>
          <p role="status">
            <State of={detail.status} /> <Name of={detail.reason ?? ""} />
          </p>
          <Facts
            isWide
            of={[
              ["Cause", detail.cause],
              ["Commit", <Commit key="commit" of={detail} />],
              ["Branch or tag", detail.branch ?? "–"],
              ["Created", <Time key="created" at={detail.createdAt} />],
              ["Took", tookOf(detail) || "–"],
            ]}
          />
          <BuildLog of={ref} />
        </>
      )}
    </Answer>
  );
}

function Changes({
  of: ref,
  isOver,
}: {
  readonly of: BuildRef;
  readonly isOver: boolean;
}): ReactNode {
  const may = useMay(ref.project);
  const navigate = useNavigate();
  if (!isOver) {
    return may("builds.cancel") ? (
      <Action
        onAct={async () => {
          await ask(api.DELETE(buildPath, { params: paramsOf(ref) }));
          await queryClient.invalidateQueries({ queryKey: ["build", ref] });
        }}
      >
        Cancel the build
      </Action>
    ) : null;
  }
  return may("builds.create") ? (
    <Action
      onAct={async () => {
        const { buildId } = await ask(api.POST(`${buildPath}/rebuild`, { params: paramsOf(ref) }));
        await navigate({
          to: "/projects/$project/apps/$app/builds/$build",
          params: { ...ref, build: buildId },
        });
      }}
    >
      Build again
    </Action>
  ) : null;
}

function BuildLog({ of: ref }: { readonly of: BuildRef }): ReactNode {
  const { search = "" } = useSearch({ strict: false });
  const path = `/v2/projects/${encodeURIComponent(ref.project)}/apps/${encodeURIComponent(ref.app)}/builds/${encodeURIComponent(ref.build)}/logs?follow=true`;
  const { lines, problem } = useLiveLines({ path, lineOf });
  const wanted = search.toLowerCase();
  const shown =
    wanted === "" ? lines : lines.filter(({ text }) => text.toLowerCase().includes(wanted));
  return (
    <>
      <SearchField
        found={`${wanted === "" ? "" : `${shown.length} of `}${counted(lines.length, "line")}`}
      />
      <p className="error" role="alert">
        {problem}
      </p>
      <LogView
        label="Build log"
        lines={shown}
        empty={wanted === "" ? "Nothing is written yet." : "No line has this text."}
      />
    </>
  );
}
