// The statements of a project, one for each month; the one that is chosen, with its lines. Which
// one is in the address.
import type { ReactNode } from "react";
import { useQuery } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";
import { api, ask } from "#api.ts";
import { saveAnswer } from "#parts/download.ts";
import { Action } from "#parts/form.tsx";
import { List } from "#parts/list.tsx";
import { moneyText } from "#parts/money.ts";
import { Name } from "#parts/name.tsx";
import { usedTimeText } from "#parts/quantities.ts";
import { Answer, State, Time } from "#parts/show.tsx";
import { appName } from "./app-name.ts";

const statementsPath = "/v2/projects/{project_id}/billing/statements";

const statementOf = (project: string, month: string, signal: AbortSignal) =>
  ask(
    api.GET(`${statementsPath}/{month}`, {
      params: { path: { project_id: project, month } },
      signal,
    }),
  );

type Statement = Awaited<ReturnType<typeof statementOf>>;

/** The list, and below it the chosen month. */
export function Statements({ project }: { readonly project: string }): ReactNode {
  const search = useSearch({ strict: false });
  const statements = useQuery({
    queryKey: ["statements", project],
    queryFn: ({ signal }) =>
      ask(api.GET(statementsPath, { params: { path: { project_id: project } }, signal })),
  });
  return (
    <>
      <Answer of={statements}>
        {({ items }) => (
          <List
            label="Statements"
            columns={[
              "Month",
              "State",
              "Closed",
              ...["Usage", "Discounts", "Corrections", "Total"].map((head) => ({
                head,
                isNumber: true,
              })),
            ]}
            empty="No statement yet: the first month with usage has one."
            rows={items.map((one) => ({
              key: one.month,
              cells: [
                <Link
                  key="month"
                  className="strong nowrap"
                  to="/projects/$project/billing"
                  params={{ project }}
                  search={{ ...search, month: one.month }}
                  hash="statement"
                >
                  {one.month}
                </Link>,
                <State key="state" of={one.status} />,
                <Time key="closed" at={one.closed_at} />,
                ...[one.usage_micros, 0 - one.discounts_micros, one.corrections_micros].map(
                  (micros) => moneyText(micros, one.currency),
                ),
                <strong key="total">{moneyText(one.total_micros, one.currency)}</strong>,
              ],
            }))}
          />
        )}
      </Answer>
      {search.month === undefined ? null : <One project={project} month={search.month} />}
    </>
  );
}

function One({ project, month }: { readonly project: string; readonly month: string }): ReactNode {
  const statement = useQuery({
    queryKey: ["statements", project, month],
    queryFn: ({ signal }) => statementOf(project, month, signal),
  });
  const save = (format: "csv" | "html") => () => {
    const path = `/v2/projects/${encodeURIComponent(project)}/billing/statements/${encodeURIComponent(month)}`;
    return saveAnswer(`${path}?format=${format}`, `statement-${project}-${month}.${format}`);
  };
  return (
    <section id="statement" aria-label={`Statement of ${month}`}>
      <div className="title">
        <h2>Statement of {month}</h2>
        <div className="row end">
          <Action onAct={save("csv")}>Save as CSV</Action>
          <Action onAct={save("html")}>Save to print</Action>
        </div>
      </div>
      <Answer of={statement}>
        {(found) => (
          <>
            <Lines project={project} of={found} />
            <Sums of={found} />
          </>
        )}
      </Answer>
    </section>
  );
}

function Lines({
  project,
  of: { lines, currency },
}: {
  readonly project: string;
  readonly of: Statement;
}): ReactNode {
  return (
    <List
      label="Lines of the statement"
      columns={[
        "App",
        "What",
        "Compute",
        ...["Time", "GPUs", "Cores", "Memory", "Builds", "Cost"].map((head) => ({
          head,
          isNumber: true,
        })),
      ]}
      empty="Nothing was used."
      rows={lines.map((line) => ({
        key: [line.app_id, line.kind, line.compute, line.compute_tier, line.pool].join(" "),
        cells: [
          <Name key="app" of={appName(line.app_id, project)} isStrong />,
          line.kind,
          [line.compute, line.compute_tier, line.pool].filter((part) => part !== "").join(", "),
          ...[line.seconds, line.gpu_seconds, line.cpu_core_seconds].map(usedTimeText),
          line.memory_gb_seconds === 0 ? "–" : `${line.memory_gb_seconds.toFixed(0)} GB s`,
          line.build_count === 0 ? "–" : line.build_count,
          moneyText(line.cost_micros, currency),
        ],
      }))}
    />
  );
}

/** The sums of a statement, from the usage to the amount owed. */
function Sums({ of }: { readonly of: Statement }): ReactNode {
  const money = (micros: number): string => moneyText(micros, of.currency);
  return (
    <List
      label="From usage to total"
      columns={["Sum", { head: "Amount", isNumber: true }]}
      rows={[
        { key: "usage", cells: ["Usage", money(of.usage_micros)] },
        ...of.discounts.map((one, at) => ({
          key: `discount ${at}`,
          cells: [
            <span key="name">
              Coupon <Name of={one.coupon_name} /> <code>{one.coupon_code}</code>
            </span>,
            money(0 - one.amount_micros),
          ],
        })),
        ...of.corrections.map((one) => ({
          key: `correction ${one.month}`,
          cells: [`Correction of ${one.month}`, money(one.usage_micros - one.discounts_micros)],
        })),
        {
          key: "total",
          cells: [
            <strong key="name">Total</strong>,
            <strong key="total">{money(of.total_micros)}</strong>,
          ],
        },
      ]}
    />
  );
}
