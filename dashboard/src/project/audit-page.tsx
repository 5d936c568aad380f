// The audit log of a project, newest first, by action, outcome and actor. The filter and the page
// are in the address.
import type { ReactNode } from "react";
import { Button, NativeSelect } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { actionTable } from "@slipway/contract/words.ts";
import { api, ask } from "#api.ts";
import { List } from "#parts/list.tsx";
import { PageButtons } from "#parts/page-buttons.tsx";
import { Answer, State, Time, useTitle } from "#parts/show.tsx";

type Filter = {
  readonly action?: string;
  readonly outcome?: string;
  readonly actor?: string;
  readonly page?: string;
};

const pageSize = 50;

function queryOf({ action, outcome, actor, page }: Filter) {
  return {
    limit: pageSize,
    ...(action === undefined ? {} : { action }),
    ...(outcome === "success" || outcome === "failure"
      ? { outcome: outcome as "success" | "failure" }
      : {}),
    ...(actor === undefined ? {} : { actor }),
    ...(page === undefined ? {} : { nextToken: page }),
  };
}

const pageOf = (project: string, filter: Filter, signal: AbortSignal) =>
  ask(
    api.GET("/v2/projects/{project_id}/audit-log", {
      params: { path: { project_id: project }, query: queryOf(filter) },
      signal,
    }),
  );

type Entry = Awaited<ReturnType<typeof pageOf>>["logs"][number];

/** The page. */
export function AuditPage(): ReactNode {
  const { project = "" } = useParams({ strict: false });
  const filter: Filter = useSearch({ strict: false });
  const navigate = useNavigate();
  const log = useQuery({
    queryKey: ["audit", project, queryOf(filter)],
    queryFn: ({ signal }) => pageOf(project, filter, signal),
  });
  useTitle("Audit log", project);
  const goTo = (change: Filter): void => {
    void navigate({ to: ".", search: { ...filter, page: undefined, ...change } });
  };
  return (
    <>
      <h1>Audit log</h1>
      <Filters filter={filter} goTo={goTo} />
      <Answer of={log}>
        {({ logs, nextPageToken, retentionDays }) => (
          <>
            <Entries entries={logs} project={project} />
            <PageButtons
              page={filter.page}
              nextToken={nextPageToken}
              goTo={(page) => goTo({ page })}
            />
            <p className="muted">Entries are kept for {retentionDays} days.</p>
          </>
        )}
      </Answer>
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
        label="Action"
        value={filter.action ?? ""}
        data={[{ value: "", label: "all" }, ...Object.keys(actionTable)]}
        onChange={(event) => goTo({ action: event.currentTarget.value || undefined })}
      />
      <NativeSelect
        label="Outcome"
        value={filter.outcome ?? ""}
        data={[{ value: "", label: "both" }, "success", "failure"]}
        onChange={(event) => goTo({ outcome: event.currentTarget.value || undefined })}
      />
      {filter.actor === undefined ? null : (
        <Button variant="default" onClick={() => goTo({ actor: undefined })}>
          All actors
        </Button>
      )}
    </div>
  );
}

function Entries({
  entries,
  project,
}: {
  readonly entries: readonly Entry[];
  readonly project: string;
}): ReactNode {
  return (
    <List
      label="Audit log"
      columns={["Time", "Action", "Outcome", "Actor", "On", "From", "Details"]}
      empty="No entries fit."
      rows={entries.map((entry) => ({
        key: entry.id,
        cells: [
          <Time key="time" at={entry.timestamp} />,
          <code key="action" title={aboutOf(entry.action)}>
            {entry.action}
          </code>,
          <State key="outcome" of={entry.outcome} />,
          entry.actor.id === null ? (
            (entry.actor.name ?? entry.actor.type)
          ) : (
            <Link
              key="actor"
              to="/projects/$project/audit"
              params={{ project }}
              search={{ actor: entry.actor.id }}
            >
              {entry.actor.name ?? entry.actor.type}
            </Link>
          ),
          entry.resource === null
            ? ""
            : `${entry.resource.type} ${entry.resource.name ?? entry.resource.id ?? ""}`,
          entry.address ?? "",
          <Details key="details" of={entry} />,
        ],
      }))}
    />
  );
}

function aboutOf(action: string): string | undefined {
  return Object.hasOwn(actionTable, action)
    ? actionTable[action as keyof typeof actionTable]
    : undefined;
}

function Details({ of: { reason, changes } }: { readonly of: Entry }): ReactNode {
  return (
    <>
      {reason === null ? null : <span className="note">{reason}</span>}
      {changes === null ? null : (
        <details>
          <summary>{Object.keys(changes).join(", ")}</summary>
          <pre tabIndex={0} aria-label="Changes">
            {JSON.stringify(changes, null, 2)}
          </pre>
        </details>
      )}
    </>
  );
}
