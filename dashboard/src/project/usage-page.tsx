// What a project has used and what it costs, with a chart by day.
import { lazy, Suspense, type ReactNode } from "react";
import { NativeSelect } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { api, ask } from "#api.ts";
import { List } from "#parts/list.tsx";
import { moneyText } from "#parts/money.ts";
import { usedTimeText } from "#parts/quantities.ts";
import { Answer, Facts, useTitle, Waiting } from "#parts/show.tsx";
import { slowRefreshMs } from "#queries.ts";
import { appName } from "./app-name.ts";

const CostChart = lazy(async () => ({ default: (await import("./cost-chart.tsx")).CostChart }));

const dayMs = 86_400_000;
const shownDays = 30;
const groups = { app: "By app", compute: "By compute" } as const;

/** Whole days up to now, as the API takes them. */
function lastDays(): { from: string; to: string } {
  const dayOf = (ms: number): string => new Date(ms).toISOString().slice(0, 10);
  return { from: dayOf(Date.now() - (shownDays - 1) * dayMs), to: dayOf(Date.now() + dayMs) };
}

const usageOf = (project: string, group: "app" | "day" | "compute", signal: AbortSignal) =>
  ask(
    api.GET("/v2/projects/{project_id}/usage", {
      params: { path: { project_id: project }, query: { ...lastDays(), group_by: group } },
      signal,
    }),
  );

/** The page. */
export function UsagePage(): ReactNode {
  const { project = "" } = useParams({ strict: false });
  const days = useQuery({
    queryKey: ["usage", project, "day"],
    queryFn: ({ signal }) => usageOf(project, "day", signal),
    refetchInterval: slowRefreshMs * 4,
  });
  useTitle("Usage", project);
  return (
    <>
      <h1>Usage</h1>
      <Cost project={project} />
      <p className="muted">
        Budgets, coupons and statements are on the page{" "}
        <Link to="/projects/$project/billing" params={{ project }}>
          Billing
        </Link>
        .
      </p>
      <h2>Cost by day</h2>
      <Answer of={days}>
        {({ items, currency }) =>
          items.length === 0 ? (
            <div className="empty">
              Nothing was used in the last {shownDays} days. Figures lag by about a minute.
            </div>
          ) : (
            <Suspense fallback={<Waiting />}>
              <CostChart
                days={items.map(({ day = "", cost_micros: micros }) => ({
                  day,
                  cost: micros / 1e6,
                }))}
                currency={currency}
              />
            </Suspense>
          )
        }
      </Answer>
      <Groups project={project} />
    </>
  );
}

const costOf = (project: string, signal: AbortSignal) =>
  ask(
    api.GET("/v2/projects/{project_id}/cost", {
      params: { path: { project_id: project } },
      signal,
    }),
  );

function Cost({ project }: { readonly project: string }): ReactNode {
  const cost = useQuery({
    queryKey: ["cost", project],
    queryFn: ({ signal }) => costOf(project, signal),
    refetchInterval: slowRefreshMs * 4,
  });
  return (
    <Answer of={cost}>
      {({ summary }) => {
        const money = (micros: number): string => moneyText(micros, summary.currency);
        return (
          <Facts
            of={[
              ["Month", summary.month],
              ["Discounts", money(summary.discounts_micros)],
              [
                "To pay so far",
                <strong key="total">{money(summary.combined_cost_after_discounts_micros)}</strong>,
              ],
            ]}
          />
        );
      }}
    </Answer>
  );
}

function Groups({ project }: { readonly project: string }): ReactNode {
  const { by } = useSearch({ strict: false });
  const navigate = useNavigate();
  const group = by === "compute" ? "compute" : "app";
  const usage = useQuery({
    queryKey: ["usage", project, group],
    queryFn: ({ signal }) => usageOf(project, group, signal),
    refetchInterval: slowRefreshMs * 4,
  });
  return (
    <>
      <h2>The last {shownDays} days</h2>
      <div className="filters">
        <NativeSelect
          label="Group"
          value={group}
          data={Object.entries(groups).map(([value, label]) => ({ value, label }))}
          onChange={(event) =>
            void navigate({ to: ".", search: { by: event.currentTarget.value } })
          }
        />
      </div>
      <Answer of={usage}>
        {({ items, currency }) => (
          <List
            label={groups[group]}
            columns={[
              group === "app" ? "App" : "Compute",
              ...["Replicas", "GPUs", "Cores", "Builds", "Cost"].map((head) => ({
                head,
                isNumber: true,
              })),
            ]}
            empty="Nothing was used."
            rows={items.map((item) => ({
              key: [item.app_id, item.compute, item.compute_tier, item.pool].join(" "),
              cells: [
                groupName(item, project),
                usedTimeText(item.replica_seconds),
                usedTimeText(item.gpu_seconds),
                usedTimeText(item.cpu_core_seconds),
                item.build_count,
                moneyText(item.cost_micros, currency),
              ],
            }))}
          />
        )}
      </Answer>
    </>
  );
}

type Group = {
  readonly app_id?: string;
  readonly compute?: string;
  readonly compute_tier?: string;
  readonly pool?: string;
};

function groupName(
  { app_id: app, compute, compute_tier: tier, pool }: Group,
  project: string,
): string {
  if (app !== undefined) return appName(app, project);
  return [compute, tier, pool].filter((part) => part !== undefined && part !== "").join(", ");
}
