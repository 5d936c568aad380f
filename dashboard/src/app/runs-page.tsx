// The runs and calls of an app, by status; one can be opened, cancelled and redriven.
import type { ReactNode } from "react";
import { NativeSelect } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { runStates } from "@slipway/contract/words.ts";
import { api, ask } from "#api.ts";
import { Action } from "#parts/form.tsx";
import { List } from "#parts/list.tsx";
import { PageButtons } from "#parts/page-buttons.tsx";
import { Name } from "#parts/name.tsx";
import { durationText } from "#parts/quantities.ts";
import { Answer, Short, State, Time, useTitle } from "#parts/show.tsx";
import { useMay } from "#permissions.ts";
import { pathOf, refreshMs, runsChanged, type AppRef } from "#queries.ts";
import { useApp } from "./app-frame.tsx";
import { kindOf, RunDetails } from "./run-details.tsx";

type Filter = {
  readonly status?: string;
  readonly only?: string;
  readonly page?: string;
  readonly run?: string;
};

const runsQuery = (ref: AppRef, { status, only, page }: Filter) => {
  const known = runStates.find((one) => one === status);
  const query = {
    pageSize: 50,
    asyncOnly: only === "async",
    ...(known === undefined ? {} : { status: known }),
    ...(page === undefined ? {} : { nextToken: page }),
  };
  return {
    queryKey: ["runs", ref.project, ref.app, query],
    queryFn: ({ signal }: { signal: AbortSignal }) =>
      ask(
        api.GET("/v2/projects/{project_id}/apps/{app_id}/runs", {
          params: { path: pathOf(ref), query },
          signal,
        }),
      ),
    // Older pages do not change much, and whoever reads them wants them to stay.
    refetchInterval: page === undefined ? refreshMs : (false as const),
  };
};

type Run = Awaited<ReturnType<ReturnType<typeof runsQuery>["queryFn"]>>["items"][number];

/** The page. */
export function RunsPage(): ReactNode {
  const ref = useApp();
  const filter: Filter = useSearch({ strict: false });
  const runs = useQuery(runsQuery(ref, filter));
  const navigate = useNavigate();
  useTitle("Runs", ref.app);
  const goTo = (change: Filter): void => {
    void navigate({ to: ".", search: { ...filter, page: undefined, run: undefined, ...change } });
  };
  return (
    <>
      <Filters filter={filter} goTo={goTo} />
      <Answer of={runs}>
        {({ items, callsLeftOut, nextToken }) => (
          <>
            {callsLeftOut === 0 ? null : (
              <p className="muted">
                {callsLeftOut} plain calls were not recorded: of successful ones, only a sample of
                each minute is.
              </p>
            )}
            <Runs items={items} filter={filter} />
            <PageButtons page={filter.page} nextToken={nextToken} goTo={(page) => goTo({ page })} />
          </>
        )}
      </Answer>
      {filter.run === undefined ? null : (
        <RunDetails id={filter.run} onClose={() => goTo({ page: filter.page })} />
      )}
    </>
  );
}

function Filters({
  filter,
  goTo,
}: {
  readonly filter: Filter;
  readonly goTo: (change: Filter) => void;
}): ReactNode {
  return (
    <div className="filters">
      <NativeSelect
        label="State"
        value={filter.status ?? ""}
        data={[{ value: "", label: "all" }, ...runStates]}
        onChange={(event) => goTo({ status: event.currentTarget.value || undefined })}
      />
      <NativeSelect
        label="Kind"
        value={filter.only ?? ""}
        data={[
          { value: "", label: "runs and calls" },
          { value: "async", label: "async runs" },
        ]}
        onChange={(event) => goTo({ only: event.currentTarget.value || undefined })}
      />
      <RedriveAll />
    </div>
  );
}

/** Offered when there are dead runs. */
function RedriveAll(): ReactNode {
  const ref = useApp();
  const may = useMay(ref.project);
  const params = { path: pathOf(ref) };
  const dead = useQuery({
    queryKey: ["runs", "dead", ref.project, ref.app],
    queryFn: ({ signal }) =>
      ask(
        api.GET("/v2/projects/{project_id}/apps/{app_id}/dead-runs", {
          params: { ...params, query: { pageSize: 1 } },
          signal,
        }),
      ),
    refetchInterval: refreshMs * 2,
  });
  if (!may("runs.redrive") || (dead.data?.items.length ?? 0) === 0) return null;
  return (
    <Action
      onAct={async () => {
        await ask(
          api.POST("/v2/projects/{project_id}/apps/{app_id}/dead-runs/redrive", { params }),
        );
        await runsChanged();
      }}
    >
      Redrive all failed runs
    </Action>
  );
}

function Runs({
  items,
  filter,
}: {
  readonly items: readonly Run[];
  readonly filter: Filter;
}): ReactNode {
  const ref = useApp();
  return (
    <List
      label="Runs"
      columns={[
        "Run",
        "State",
        "Kind",
        "Endpoint",
        { head: "Status", isNumber: true },
        { head: "Waited", isNumber: true },
        { head: "Ran", isNumber: true },
        "Created",
        "Reason",
      ]}
      empty={
        filter.status === undefined && filter.only === undefined
          ? "Nobody has called the app yet."
          : "No runs fit."
      }
      rows={items.map((run) => ({
        key: run.id,
        cells: [
          <Link
            key="id"
            to="/projects/$project/apps/$app/runs"
            params={ref}
            search={{ ...filter, run: run.id }}
          >
            <Short id={run.id} />
          </Link>,
          <State key="state" of={run.status} />,
          kindOf(run),
          <span key="endpoint" className="mono">
            <Name of={`${run.method} /${run.functionName}`} />
          </span>,
          run.statusCode ?? "",
          durationText(run.totalQueueTimeMs),
          durationText(run.executionTimeMs),
          <Time key="created" at={run.createdAt} />,
          run.reason === null || run.reason === "" ? null : (
            <span key="reason" className="note">
              <Name of={run.reason} />
            </span>
          ),
        ],
      }))}
    />
  );
}
