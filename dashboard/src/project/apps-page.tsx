// The apps of a project: first what needs somebody, then the rest by name. A project without apps
// says how to make one.
import type { ReactNode } from "react";
import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { failedBuildNote, type BuiltApp } from "@slipway/contract/failed-build.ts";
import { api, ask } from "#api.ts";
import { List, type Column } from "#parts/list.tsx";
import { centsText, moneyText } from "#parts/money.ts";
import { Name } from "#parts/name.tsx";
import { Answer, State, Time, useTitle } from "#parts/show.tsx";
import { useMay } from "#permissions.ts";
import { appsQuery, projectReplicasQuery, slowRefreshMs } from "#queries.ts";
import { budgetQuery } from "./budget-query.ts";
import { FirstApp } from "./first-app.tsx";
import { CallsOfHour, ErrorsOfHour } from "./last-hour.tsx";

type App = BuiltApp & {
  readonly id: string;
  readonly name: string;
  readonly updatedAt: string;
  readonly waitReason: string | null;
  readonly autoDeployPausedReason: string | null;
};

/** The page. */
export function AppsPage(): ReactNode {
  const { project = "" } = useParams({ strict: false });
  const apps = useQuery(appsQuery(project));
  const may = useMay(project);
  useTitle("Apps", project);
  return (
    <Answer of={apps}>
      {(all) => (
        <>
          <div className="title">
            <h1>Apps</h1>
            {all.length > 0 && may("apps.create") ? (
              <Link className="as-button" to="/projects/$project/new" params={{ project }}>
                New app
              </Link>
            ) : null}
          </div>
          {may("billing.read") ? <SpentBudget project={project} /> : null}
          {all.length === 0 ? <FirstApp project={project} /> : <Apps project={project} all={all} />}
        </>
      )}
    </Answer>
  );
}

/** Said only when it is used up. */
function SpentBudget({ project }: { readonly project: string }): ReactNode {
  const { data: budget } = useQuery(budgetQuery({ project, app: undefined }));
  if (budget === undefined || budget === null || budget.spent_cents < budget.amount_cents)
    return null;
  const {
    spent_cents: spent,
    amount_cents: amount,
    currency,
    month,
    stopped_at: stoppedAt,
  } = budget;
  return (
    <p className="attention">
      {centsText(spent, currency)} of the budget of {centsText(amount, currency)} are spent in{" "}
      {month}
      {stoppedAt === null ? ". " : ": calls are refused. "}
      <Link to="/projects/$project/billing" params={{ project }}>
        See the budget
      </Link>
    </p>
  );
}

/** What somebody has to look at comes first. */
function urgency(app: App): number {
  if (app.status === "FAILED") return 0;
  if (app.waitReason !== null) return 1;
  return failedBuildNote(app, "") === null && app.autoDeployPausedReason === null ? 3 : 2;
}

function noteOf(app: App): string {
  const { status, waitReason, autoDeployPausedReason: paused } = app;
  const notes = [
    status === "FAILED" && waitReason === null ? "The latest build failed." : null,
    waitReason,
    failedBuildNote(app, ""),
    paused === null ? null : `Automatic deploys are paused. ${paused}`,
  ];
  return notes.filter((note) => note !== null).join(" ");
}

function Apps({
  project,
  all,
}: {
  readonly project: string;
  readonly all: readonly App[];
}): ReactNode {
  const sorted = [...all].sort((a, b) => urgency(a) - urgency(b) || a.name.localeCompare(b.name));
  const urgent = sorted.filter((app) => urgency(app) < 3);
  const others = sorted.slice(urgent.length);
  return (
    <>
      {urgent.length === 0 ? null : (
        <section>
          <h2>Needs attention</h2>
          <Rows label="Apps that need attention" project={project} apps={urgent} last="Why" />
        </section>
      )}
      {others.length === 0 ? null : (
        <section>
          {urgent.length === 0 ? null : <h2>All others</h2>}
          <Rows label="Apps" project={project} apps={others} last="Changed" />
        </section>
      )}
    </>
  );
}

type RowsProps = {
  readonly label: string;
  readonly project: string;
  readonly apps: readonly App[];
  readonly last: "Why" | "Changed";
};

function Rows({ label, project, apps, last }: RowsProps): ReactNode {
  const replicas = useQuery(projectReplicasQuery(project)).data;
  const costOf = useCosts(project);
  const countOf = (id: string): string => {
    const ofApp = replicas?.filter(({ appId }) => appId === id);
    if (ofApp === undefined) return "";
    const ready = ofApp.filter(({ containerState }) => containerState === "RUNNING").length;
    return ready === ofApp.length ? String(ready) : `${ready} of ${ofApp.length}`;
  };
  const numbers: readonly Column[] = [
    { head: "Replicas", isNumber: true },
    { head: "Calls, last hour", isNumber: true },
    {
      head: "Errors (5xx)",
      isNumber: true,
      about: "Calls with status 500 or above, or cut off, in the last hour",
    },
    ...(costOf === null ? [] : [{ head: "Cost today", isNumber: true }]),
  ];
  return (
    <List
      label={label}
      columns={
        last === "Why" ? ["App", "State", last, ...numbers] : ["App", "State", ...numbers, last]
      }
      rows={apps.map((app) => ({
        key: app.id,
        cells: [
          <Link
            key="name"
            className="strong nowrap"
            to="/projects/$project/apps/$app"
            params={{ project, app: app.id }}
          >
            {app.name}
          </Link>,
          <State key="state" of={app.status} />,
          ...(last === "Why" ? [why(app)] : []),
          countOf(app.id),
          <CallsOfHour key="calls" app={{ project, app: app.id }} />,
          <ErrorsOfHour key="errors" app={{ project, app: app.id }} />,
          ...(costOf === null ? [] : [costOf(app.id)]),
          ...(last === "Changed" ? [<Time key="changed" at={app.updatedAt} />] : []),
        ],
      }))}
    />
  );
}

function why(app: App): ReactNode {
  return (
    <span key="why" className="note">
      <Name of={noteOf(app)} />
    </span>
  );
}

/**
 * What each app has cost today (UTC), as a text; null: whoever looks may not see it, or nothing has
 * cost anything.
 */
function useCosts(project: string): ((app: string) => string) | null {
  const mayRead = useMay(project)("billing.read");
  const { data } = useQuery({
    queryKey: ["usage", project, "today"],
    queryFn: ({ signal }) => {
      const query = { from: new Date().toISOString().slice(0, 10), group_by: "app" as const };
      return ask(
        api.GET("/v2/projects/{project_id}/usage", {
          params: { path: { project_id: project }, query },
          signal,
        }),
      );
    },
    enabled: mayRead,
    refetchInterval: slowRefreshMs * 4,
  });
  if (!mayRead || data === undefined || data.items.every(({ cost_micros: micros }) => micros === 0))
    return null;
  return (app) => {
    const used = data.items.find(({ app_id: id }) => id === app);
    return used === undefined ? "–" : moneyText(used.cost_micros, data.currency);
  };
}
