// All projects of the platform with their plans: found by name or id, and given another plan.
import { useState, type ReactNode } from "react";
import { Button, Modal, NativeSelect } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";
import { api, ask, messageOf } from "#api.ts";
import { FieldForm } from "#parts/form.tsx";
import { List } from "#parts/list.tsx";
import { PageButtons, pagesInOrder, useGoToPage } from "#parts/page-buttons.tsx";
import { SearchField } from "#parts/search-field.tsx";
import { Answer, Facts, Time, useTitle } from "#parts/show.tsx";
import { queryClient } from "#queries.ts";

const projectsPath = "/v2/operator/projects";

type Project = {
  readonly id: string;
  readonly name: string;
  readonly plan: string;
  readonly is_default_plan: boolean;
  readonly created_at: string;
};

/** The page. */
export function OperatorProjectsPage(): ReactNode {
  const { search, page } = useSearch({ strict: false });
  const goTo = useGoToPage();
  const [chosen, setChosen] = useState<Project | null>(null);
  const projects = useQuery({
    queryKey: ["operator projects", search, page],
    queryFn: ({ signal }) =>
      ask(api.GET(projectsPath, { params: { query: { search, nextToken: page } }, signal })),
    placeholderData: (before) => before,
  });
  useTitle("Projects", "Operator");
  return (
    <>
      <h1>All projects</h1>
      <SearchField placeholder="name or id" maxLength={100} />
      <Answer of={projects}>
        {({ items, nextToken }) => (
          <>
            <List
              label="All projects"
              columns={["Name", "Id", "Plan", "Created", ""]}
              empty={search === undefined ? "No projects." : "No project has this name or id."}
              rows={items.map((project) => ({
                key: project.id,
                cells: [
                  <Link
                    key="name"
                    className="strong"
                    title={project.name}
                    to="/projects/$project"
                    params={{ project: project.id }}
                  >
                    <bdi>{project.name}</bdi>
                  </Link>,
                  <code key="id">{project.id}</code>,
                  <span key="plan">
                    {project.plan}{" "}
                    {project.is_default_plan ? <span className="muted">by default</span> : null}
                  </span>,
                  <Time key="created" at={project.created_at} />,
                  <Button
                    key="plan-button"
                    variant="default"
                    size="compact-xs"
                    aria-label={`Plan of ${project.name}`}
                    onClick={() => setChosen(project)}
                  >
                    Plan
                  </Button>,
                ],
              }))}
            />
            <PageButtons page={page} nextToken={nextToken} goTo={goTo} names={pagesInOrder} />
          </>
        )}
      </Answer>
      {chosen === null ? null : <Plan of={chosen} onClose={() => setChosen(null)} />}
    </>
  );
}

function Plan({
  of: { id, name },
  onClose,
}: {
  readonly of: Project;
  readonly onClose: () => void;
}): ReactNode {
  const plan = useQuery({
    queryKey: ["plan", id],
    queryFn: ({ signal }) => readPlan(id, signal),
  });
  const all = useQuery({
    queryKey: ["plans"],
    queryFn: ({ signal }) => ask(api.GET("/v2/operator/plans", { signal })),
  });
  return (
    <Modal
      opened
      onClose={onClose}
      title={<bdi>{`Plan of ${name}`}</bdi>}
      closeButtonProps={{ "aria-label": "Close" }}
    >
      <Answer of={plan}>
        {(current) => (
          <>
            <PlanFacts of={current} />
            <ChangePlan
              key={`${current.plan} ${all.isSuccess}`}
              project={id}
              current={current.plan}
              names={all.data?.map((one) => one.name) ?? [current.plan]}
              error={all.error}
            />
          </>
        )}
      </Answer>
    </Modal>
  );
}

function readPlan(project: string, signal: AbortSignal) {
  const path = { project_id: project };
  return ask(api.GET("/v2/projects/{project_id}/plan", { params: { path }, signal }));
}

type PlanFactsProps = { readonly of: Awaited<ReturnType<typeof readPlan>> };

function PlanFacts({
  of: { plan, limits, used, monthly_credit_cents: credit, ...days },
}: PlanFactsProps): ReactNode {
  const limit = (usedNow: number, max: number | null): string =>
    `${usedNow} of ${max ?? "any number"}`;
  return (
    <Facts
      of={[
        ["Plan", plan],
        ["Apps", limit(used.apps, limits.apps)],
        ["Replicas", limit(used.replicas, limits.replicas)],
        ["GPUs", limit(used.gpus, limits.gpus)],
        ["Audit log", `${days.audit_retention_days} days`],
        ["Logs", `${days.log_retention_days} days`],
        [
          "Plain calls",
          `${days.call_retention_days} days, ${days.call_records_per_minute} a minute for each app`,
        ],
        ["Monthly credit", credit === 0 ? "none" : (credit / 100).toFixed(2)],
        ["Coupons", days.coupons],
      ]}
    />
  );
}

type ChangePlanProps = {
  readonly project: string;
  readonly current: string;
  /** The names of all plans, or the current one while they are unknown. */
  readonly names: readonly string[];
  /** Why the names are unknown. */
  readonly error: Error | null;
};

function ChangePlan({ project, current, names, error }: ChangePlanProps): ReactNode {
  return (
    <FieldForm
      label="Change the plan"
      submit="Change the plan"
      before={
        <NativeSelect
          name="plan"
          label="Another plan"
          description="Plans are set in SLIPWAY_PLANS_FILE. Replicas above a lower limit end after their running calls; no app is removed."
          error={error === null ? undefined : messageOf(error)}
          defaultValue={current}
          data={[...names]}
        />
      }
      fields={[]}
      onSubmit={async ({ plan: wanted = "" }) => {
        await ask(
          api.PATCH(`${projectsPath}/{project_id}`, {
            params: { path: { project_id: project } },
            body: { plan: wanted },
          }),
        );
        await Promise.all(
          ["plan", "operator projects"].map((key) =>
            queryClient.invalidateQueries({ queryKey: [key] }),
          ),
        );
      }}
    />
  );
}
