// What a project pays and may use: its plan with its limits, its budgets, its coupons and its
// statements.
import type { ReactNode } from "react";
import { useQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { api, ask } from "#api.ts";
import { List } from "#parts/list.tsx";
import { centsText } from "#parts/money.ts";
import { Name } from "#parts/name.tsx";
import { Answer, Facts, useTitle } from "#parts/show.tsx";
import { useMay } from "#permissions.ts";
import { slowRefreshMs } from "#queries.ts";
import { Budgets } from "./budgets.tsx";
import { ApplyCoupon, Coupons } from "./coupons.tsx";
import { Statements } from "./statements.tsx";

type OfProject = { readonly project: string };

/** The page. */
export function BillingPage(): ReactNode {
  const { project = "" } = useParams({ strict: false });
  const mayWrite = useMay(project)("billing.write");
  useTitle("Billing", project);
  return (
    <>
      <h1>Billing</h1>
      <div className="columns">
        <section>
          <h2>Budgets</h2>
          <Budgets project={project} />
        </section>
        <section>
          <h2>Plan</h2>
          <Plan project={project} />
        </section>
      </div>
      <h2>Coupons</h2>
      <Coupons project={project} />
      {mayWrite ? (
        <ApplyCoupon project={project} />
      ) : (
        <p className="muted">
          Your role does not allow you to set budgets and to apply coupons. Ask an owner.
        </p>
      )}
      <h2>Statements</h2>
      <Statements project={project} />
    </>
  );
}

const couponsTaken = {
  all: "all",
  named: "those that name the plan",
  none: "none",
} as const;

/** The currency is the billing account's, which the costs say. */
function useCurrency(project: string): string | undefined {
  const { data } = useQuery({
    queryKey: ["cost", project],
    queryFn: ({ signal }) =>
      ask(
        api.GET("/v2/projects/{project_id}/cost", {
          params: { path: { project_id: project } },
          signal,
        }),
      ),
  });
  return data?.summary.currency;
}

function Plan({ project }: OfProject): ReactNode {
  const currency = useCurrency(project);
  const plan = useQuery({
    queryKey: ["plan", project],
    queryFn: ({ signal }) =>
      ask(
        api.GET("/v2/projects/{project_id}/plan", {
          params: { path: { project_id: project } },
          signal,
        }),
      ),
    refetchInterval: slowRefreshMs,
  });
  return (
    <Answer of={plan}>
      {({ plan: name, limits, used, ...rest }) => (
        <>
          <Facts
            of={[
              ["Plan", <Name key="plan" of={name} isStrong />],
              [
                "Monthly credit",
                currency === undefined ? "" : centsText(rest.monthly_credit_cents, currency),
              ],
              ["Coupons", couponsTaken[rest.coupons]],
              ["Logs are kept", `${rest.log_retention_days} days`],
              [
                "Calls are listed",
                `${rest.call_retention_days} days, ${rest.call_records_per_minute} successful ones a minute for each app`,
              ],
              ["Audit log is kept", `${rest.audit_retention_days} days`],
            ]}
          />
          <List
            label="Limits of the plan"
            columns={[
              "Limit",
              { head: "Used", isNumber: true },
              { head: "At most", isNumber: true },
            ]}
            rows={(["apps", "replicas", "gpus"] as const).map((what) => ({
              key: what,
              cells: [
                what === "gpus" ? "GPUs" : `${what[0]?.toUpperCase()}${what.slice(1)}`,
                used[what],
                limits[what] ?? "no limit",
              ],
            }))}
          />
        </>
      )}
    </Answer>
  );
}
