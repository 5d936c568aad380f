// The budgets of the whole project and of each of its apps in one table: how much is spent, and a
// form to set each.
import { useState, type ReactNode } from "react";
import { Button, Checkbox, Progress } from "@mantine/core";
import { useQueries, useQuery } from "@tanstack/react-query";
import { useSearch } from "@tanstack/react-router";
import { api, ask, messageOf } from "#api.ts";
import { Confirm } from "#parts/confirm.tsx";
import { FieldForm } from "#parts/form.tsx";
import { List } from "#parts/list.tsx";
import { centsText } from "#parts/money.ts";
import { Name } from "#parts/name.tsx";
import { Answer, Facts, Time } from "#parts/show.tsx";
import { useMay } from "#permissions.ts";
import { appsQuery, queryClient, slowRefreshMs } from "#queries.ts";
import { appName } from "./app-name.ts";
import { budgetQuery, type Budget, type BudgetScope } from "./budget-query.ts";

const projectPath = "/v2/projects/{project_id}/budget";
const appPath = "/v2/projects/{project_id}/apps/{app_id}/budget";
/**
 * Each row asks for its own budget, so that not all apps of a large project are asked for at once.
 */
const shownMore = 20;

async function changed(): Promise<void> {
  await queryClient.invalidateQueries({ queryKey: ["budget"] });
}

/** Costs of this month (UTC) by app, before coupons, as budgets count them. */
function useCosts(project: string) {
  const from = `${new Date().toISOString().slice(0, 7)}-01`;
  const to = new Date(Date.now() + 86_400_000).toISOString().slice(0, 10);
  return useQuery({
    queryKey: ["usage", project, "app", from, to],
    queryFn: ({ signal }) =>
      ask(
        api.GET("/v2/projects/{project_id}/usage", {
          params: { path: { project_id: project }, query: { from, to, group_by: "app" } },
          signal,
        }),
      ),
    refetchInterval: slowRefreshMs * 4,
  });
}

/** The table. `app` in the address: the row that is open at first. */
export function Budgets({ project }: { readonly project: string }): ReactNode {
  const may = useMay(project);
  const apps = useQuery({
    ...appsQuery(project),
    enabled: may("apps.read"),
    refetchInterval: slowRefreshMs,
  });
  const costs = useCosts(project);
  const [shown, setShown] = useState(shownMore);
  const spent = new Map(costs.data?.items.map((item) => [item.app_id ?? "", item.cost_micros]));
  // Who may not read apps still sees those that cost something.
  const known = may("apps.read")
    ? (apps.data ?? []).map(({ id }) => id)
    : [...spent.keys()].filter((id) => id !== "");
  const all = known.toSorted((one, other) => (spent.get(other) ?? 0) - (spent.get(one) ?? 0));
  return (
    <Answer of={costs}>
      {({ currency }) => (
        <>
          <Table
            project={project}
            currency={currency}
            spent={spent}
            apps={all.slice(0, shown)}
            total={[...spent.values()].reduce((sum, micros) => sum + micros, 0)}
            mayWrite={may("billing.write")}
          />
          {all.length > shown ? (
            <button type="button" className="as-link" onClick={() => setShown(shown + shownMore)}>
              Show more of {all.length} apps
            </button>
          ) : null}
        </>
      )}
    </Answer>
  );
}

type TableProps = {
  readonly project: string;
  readonly apps: readonly string[];
  readonly spent: ReadonlyMap<string, number>;
  readonly total: number;
  readonly currency: string;
  readonly mayWrite: boolean;
};

function Table({ project, apps, spent, total, currency, mayWrite }: TableProps): ReactNode {
  const search = useSearch({ strict: false });
  const [open, setOpen] = useState<string | null>(search.app ?? null);
  const scopes: BudgetScope[] = [undefined, ...apps].map((app) => ({ project, app }));
  const budgets = useQueries({ queries: scopes.map((scope) => budgetQuery(scope)) });
  const rows = scopes.map((scope, at) => {
    const key = scope.app ?? "";
    const answer = budgets[at];
    const budget = answer?.data;
    const micros = scope.app === undefined ? total : (spent.get(scope.app) ?? 0);
    const cents = budget?.spent_cents ?? Math.floor(micros / 10_000);
    const name = scope.app === undefined ? "the whole project" : appName(scope.app, project);
    let verb = "Details";
    if (mayWrite) verb = budget === null ? "Set" : "Change";
    const canOpen = budget !== undefined && (mayWrite || budget !== null);
    const isOpen = open === key && budget !== undefined;
    return {
      key,
      cells: [
        scope.app === undefined ? (
          <strong key="name">The whole project</strong>
        ) : (
          <Name key="name" of={name} />
        ),
        answer?.isError === true ? messageOf(answer.error) : amountText(budget),
        <Spent key="spent" cents={cents} budget={budget ?? null} currency={currency} />,
        <div key="actions" className="row">
          {!canOpen || isOpen ? null : (
            <Button
              variant="default"
              size="compact-xs"
              aria-label={
                mayWrite ? `${verb} the budget of ${name}` : `Details of the budget of ${name}`
              }
              onClick={() => setOpen(key)}
            >
              {verb}
            </Button>
          )}
          {mayWrite && budget !== undefined && budget !== null ? (
            <Confirm what="Remove" to={`the budget of ${name}`} onAct={() => removeBudget(scope)} />
          ) : null}
        </div>,
      ],
      below: isOpen ? (
        <Opened scope={scope} budget={budget} mayWrite={mayWrite} onClose={() => setOpen(null)} />
      ) : undefined,
    };
  });
  return (
    <List
      label="Budgets"
      columns={[
        "Budget of",
        { head: "Budget", isNumber: true },
        { head: "Spent this month", isNumber: true },
        "",
      ]}
      rows={rows}
    />
  );
}

function amountText(budget: Budget | null | undefined): ReactNode {
  if (budget === undefined) return "…";
  return budget === null ? (
    <span className="muted">none</span>
  ) : (
    centsText(budget.amount_cents, budget.currency)
  );
}

type SpentProps = {
  readonly cents: number;
  readonly budget: Budget | null;
  readonly currency: string;
};

function Spent({ cents, budget, currency }: SpentProps): ReactNode {
  const text = centsText(cents, currency);
  if (budget === null) return text;
  const share = `${text} (${percentOf(budget)} %)`;
  return budget.spent_cents < budget.amount_cents ? (
    share
  ) : (
    <strong className="attention">{share}</strong>
  );
}

function percentOf({ spent_cents: spent, amount_cents: amount }: Budget): number {
  return Math.floor((100 * spent) / amount);
}

async function removeBudget({ project, app }: BudgetScope): Promise<void> {
  const path = { project_id: project };
  if (app === undefined) await ask(api.DELETE(projectPath, { params: { path } }));
  else await ask(api.DELETE(appPath, { params: { path: { ...path, app_id: app } } }));
  await changed();
}

async function setBudget({ project, app }: BudgetScope, body: Wish): Promise<void> {
  const path = { project_id: project };
  if (app === undefined) await ask(api.PUT(projectPath, { params: { path }, body }));
  else await ask(api.PUT(appPath, { params: { path: { ...path, app_id: app } }, body }));
  await changed();
}

function Shown({ of }: { readonly of: Budget }): ReactNode {
  const percent = percentOf(of);
  return (
    <>
      <div className="quota">
        <span>
          <strong>{centsText(of.spent_cents, of.currency)}</strong> of{" "}
          {centsText(of.amount_cents, of.currency)} spent in {of.month} ({percent} %)
        </span>
        <Progress
          value={Math.min(100, percent)}
          color={percent >= 100 ? "red" : "indigo"}
          size="sm"
          aria-label="Spent"
        />
      </div>
      {of.stopped_at === null ? null : (
        <p className="attention">
          It was used up <Time at={of.stopped_at} />: calls are refused until the month is over, or
          the budget is raised or removed.
        </p>
      )}
      <Facts
        of={[
          [
            "Warns at",
            of.warn_percent.length === 0
              ? "never"
              : of.warn_percent.map((one) => `${one} %`).join(", "),
          ],
          [
            "Warned",
            of.warned_percent === null ? "not in this month" : `at ${of.warned_percent} %`,
          ],
          ["When reached", of.stop ? "calls are refused and replicas end" : "nothing is stopped"],
          ["Webhook", of.webhook_url === null ? "none" : <Name key="url" of={of.webhook_url} />],
          ["Changed", <Time key="changed" at={of.updated_at} />],
        ]}
      />
    </>
  );
}

type OpenedProps = {
  readonly scope: BudgetScope;
  readonly budget: Budget | null;
  readonly mayWrite: boolean;
  readonly onClose: () => void;
};

/** What is below a row: the budget as it is, and the form for those who may set it. */
function Opened({ scope, budget, mayWrite, onClose }: OpenedProps): ReactNode {
  const [isChanging, setChanging] = useState(mayWrite);
  return (
    <div className="narrow">
      {budget === null ? (
        <p className="muted">No budget is set: costs are not limited.</p>
      ) : (
        <Shown of={budget} />
      )}
      {isChanging ? (
        <BudgetForm
          budget={budget}
          onClose={onClose}
          set={async (body) => {
            await setBudget(scope, body);
            setChanging(false);
          }}
        />
      ) : (
        <button type="button" className="as-link" onClick={onClose}>
          Close
        </button>
      )}
    </div>
  );
}

type Wish = { amount_cents: number; warn_percent: number[]; stop: boolean; webhook_url?: string };
type BudgetFormProps = {
  readonly budget: Budget | null;
  readonly set: (wish: Wish) => Promise<void>;
  readonly onClose: () => void;
};

function BudgetForm({ budget, set, onClose }: BudgetFormProps): ReactNode {
  return (
    <FieldForm
      label="Budget"
      submit="Set budget"
      fields={[
        {
          name: "amount",
          label:
            budget === null ? "Amount for a month" : `Amount for a month, in ${budget.currency}`,
          hint: "Before coupons; months are those of UTC.",
          type: "number",
          min: 0.01,
          step: 0.01,
          autoComplete: "off",
          required: true,
          autoFocus: true,
          defaultValue: budget === null ? "" : String(budget.amount_cents / 100),
        },
        {
          name: "warn",
          label: "Warn at percent",
          hint: "Such as 50, 80, 100. Empty: no warnings.",
          autoComplete: "off",
          spellCheck: false,
          defaultValue: (budget?.warn_percent ?? [80, 100]).join(", "),
        },
        {
          name: "url",
          label: "Webhook",
          hint: "An address that gets warnings and stops, too. Empty: none.",
          type: "url",
          autoComplete: "off",
          spellCheck: false,
          defaultValue: budget?.webhook_url ?? "",
        },
      ]}
      more={
        <Checkbox
          size="xs"
          name="stop"
          label="When it is reached, refuse calls and end replicas until the month is over"
          defaultChecked={budget?.stop ?? false}
        />
      }
      after={
        <button type="button" className="as-link" onClick={onClose}>
          Keep it as it is
        </button>
      }
      onSubmit={({ amount, warn = "", stop, url = "" }) =>
        set({
          amount_cents: Math.round(Number(amount) * 100),
          warn_percent: percentsOf(warn),
          stop: stop !== undefined,
          ...(url.trim() === "" ? {} : { webhook_url: url.trim() }),
        })
      }
    />
  );
}

/** What is no number stays as it is, so that the refusal names it. */
function percentsOf(text: string): number[] {
  const parts = text.split(/[\s,;%]+/).filter((part) => part !== "");
  return parts.map((part) =>
    Number.isNaN(Number(part)) ? (part as unknown as number) : Number(part),
  );
}
