// The budget of the whole project, or of the app that is chosen: how much of it is spent, and a form to set it.
import { useState, type ReactNode } from "react";
import { Checkbox, NativeSelect, Progress } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { api, ask } from "#api.ts";
import { Confirm } from "#parts/confirm.tsx";
import { FieldForm } from "#parts/form.tsx";
import { centsText } from "#parts/money.ts";
import { Name } from "#parts/name.tsx";
import { Answer, Facts, Time } from "#parts/show.tsx";
import { useMay } from "#permissions.ts";
import { appsQuery, queryClient, slowRefreshMs } from "#queries.ts";
import { budgetQuery, type Budget, type BudgetPlace } from "./budget-query.ts";

const projectPath = "/v2/projects/{project_id}/budget";
const appPath = "/v2/projects/{project_id}/apps/{app_id}/budget";

async function changed(): Promise<void> {
  await queryClient.invalidateQueries({ queryKey: ["budget"] });
}

/** One budget at a time; which one is in the address. */
export function Budgets({ project }: { readonly project: string }): ReactNode {
  const search = useSearch({ strict: false });
  const navigate = useNavigate();
  const may = useMay(project);
  const apps = useQuery({ ...appsQuery(project), enabled: may("apps.read"), refetchInterval: slowRefreshMs });
  const place: BudgetPlace = { project, app: search.app };
  const budget = useQuery(budgetQuery(place));
  const known = apps.data ?? [];
  const isUnknown = search.app !== undefined && !known.some(({ id }) => id === search.app);
  return (
    <>
      {may("apps.read") ? (
        <div className="filters">
          <NativeSelect
            label="Budget of"
            value={search.app ?? ""}
            data={[
              { value: "", label: "the whole project" },
              ...known.map(({ id, name }) => ({ value: id, label: name })),
              ...(isUnknown ? [{ value: search.app ?? "", label: search.app ?? "" }] : []),
            ]}
            onChange={(event) => {
              void navigate({ to: ".", search: { ...search, app: event.currentTarget.value || undefined } });
            }}
          />
        </div>
      ) : null}
      <Answer of={budget}>
        {(found) => (
          <>
            {found === null ? <p className="muted">No budget is set: costs are not limited.</p> : <Shown of={found} />}
            {may("billing.write") ? <Change key={search.app} place={place} budget={found} /> : null}
          </>
        )}
      </Answer>
    </>
  );
}

function Shown({ of }: { readonly of: Budget }): ReactNode {
  const percent = (100 * of.spent_cents) / of.amount_cents;
  return (
    <>
      <div className="quota">
        <span>
          <strong>{centsText(of.spent_cents, of.currency)}</strong> of {centsText(of.amount_cents, of.currency)} spent
          in {of.month} ({Math.floor(percent)} %)
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
          It was used up <Time at={of.stopped_at} />: calls are refused until the month is over, or the budget is raised
          or removed.
        </p>
      )}
      <Facts
        of={[
          ["Warns at", of.warn_percent.length === 0 ? "never" : of.warn_percent.map((one) => `${one} %`).join(", ")],
          ["Warned", of.warned_percent === null ? "not in this month" : `at ${of.warned_percent} %`],
          ["When reached", of.stop ? "calls are refused and replicas end" : "nothing is stopped"],
          ["Webhook", of.webhook_url === null ? "none" : <Name key="url" of={of.webhook_url} />],
          ["Changed", <Time key="changed" at={of.updated_at} />],
        ]}
      />
    </>
  );
}

type ChangeProps = { readonly place: BudgetPlace; readonly budget: Budget | null };

function Change({ place: { project, app }, budget }: ChangeProps): ReactNode {
  const [isOpen, setOpen] = useState(false);
  const path = { project_id: project };
  const remove = async (): Promise<void> => {
    if (app === undefined) await ask(api.DELETE(projectPath, { params: { path } }));
    else await ask(api.DELETE(appPath, { params: { path: { ...path, app_id: app } } }));
    await changed();
  };
  return (
    <>
      <div className="choices">
        {isOpen ? null : (
          <button type="button" className="as-link" onClick={() => setOpen(true)}>
            {budget === null ? "Set a budget" : "Change the budget"}
          </button>
        )}
        {budget === null || isOpen ? null : <Confirm what="Remove" to="the budget" onAct={remove} />}
      </div>
      {isOpen ? (
        <div className="narrow">
          <BudgetForm
            budget={budget}
            onClose={() => setOpen(false)}
            set={async (body) => {
              if (app === undefined) await ask(api.PUT(projectPath, { params: { path }, body }));
              else await ask(api.PUT(appPath, { params: { path: { ...path, app_id: app } }, body }));
              setOpen(false);
              await changed();
            }}
          />
        </div>
      ) : null}
    </>
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
          label: budget === null ? "Amount for a month" : `Amount for a month, in ${budget.currency}`,
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
  return parts.map((part) => (Number.isNaN(Number(part)) ? (part as unknown as number) : Number(part)));
}
