// The webhooks of a project: the URLs that deliveries go to and their health, the deliveries, what
// signs them, and how often they are tried again. Filters, pages and the open delivery are in the
// address.
import type { ReactNode } from "react";
import { NativeSelect } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { api, ask } from "#api.ts";
import { Confirm } from "#parts/confirm.tsx";
import { Action, useRun } from "#parts/form.tsx";
import { List } from "#parts/list.tsx";
import { Name } from "#parts/name.tsx";
import { PageButtons } from "#parts/page-buttons.tsx";
import { Answer, State, Time, useTitle } from "#parts/show.tsx";
import { useMay } from "#permissions.ts";
import { slowRefreshMs } from "#queries.ts";
import { Deliveries } from "./deliveries.tsx";
import { webhooksChanged, type WebhookFilter } from "./webhook-queries.ts";
import { WebhookSecrets } from "./webhook-secrets.tsx";

const endpointsPath = "/v2/projects/{project_id}/webhook-endpoints";
const schedulePath = "/v2/projects/{project_id}/webhook-schedule";
const pageSize = 50;

const endpointsOf = (project: string, page: string | undefined, signal: AbortSignal) => {
  const query = { pageSize, ...(page === undefined ? {} : { nextToken: page }) };
  return ask(api.GET(endpointsPath, { params: { path: { project_id: project }, query }, signal }));
};

type Endpoint = Awaited<ReturnType<typeof endpointsOf>>["items"][number];
type OfProject = { readonly project: string };

/** The page. */
export function WebhooksPage(): ReactNode {
  const { project = "" } = useParams({ strict: false });
  useTitle("Webhooks", project);
  return (
    <>
      <h1>Webhooks</h1>
      <h2>Endpoints</h2>
      <Endpoints project={project} />
      <h2>Deliveries</h2>
      <Deliveries project={project} />
      <h2>Signing secrets</h2>
      <WebhookSecrets project={project} />
      <h2>Retries</h2>
      <Schedule project={project} />
    </>
  );
}

function Endpoints({ project }: OfProject): ReactNode {
  const filter: WebhookFilter = useSearch({ strict: false });
  const navigate = useNavigate();
  const endpoints = useQuery({
    queryKey: ["webhooks", "endpoints", project, filter.endpoints],
    queryFn: ({ signal }) => endpointsOf(project, filter.endpoints, signal),
    refetchInterval: slowRefreshMs,
  });
  const goTo = (page: string | undefined): void => {
    void navigate({ to: ".", search: { ...filter, endpoints: page } });
  };
  return (
    <Answer of={endpoints}>
      {({ items, nextToken }) => (
        <>
          <List
            label="Endpoints"
            columns={[
              "URL",
              "State",
              { head: "Waiting", isNumber: true },
              "Last success",
              "Last failure",
              "What failed",
              "",
            ]}
            empty="Nothing was sent to a webhook yet. Callers name one with each call, in webhookEndpoint."
            rows={items.map((one) => ({
              key: one.id,
              cells: [
                <Link
                  key="url"
                  to="/projects/$project/webhooks"
                  params={{ project }}
                  search={{ endpoint: one.id }}
                  title="Its deliveries"
                >
                  <Name of={one.url} />
                </Link>,
                <State key="state" of={stateOf(one)} />,
                one.waiting,
                <Time key="success" at={one.lastSuccessAt} />,
                <Time key="failure" at={one.lastFailureAt} />,
                <span key="reason" className="note">
                  <Name of={one.lastFailure ?? ""} />
                </span>,
                <Pause key="pause" project={project} endpoint={one} />,
              ],
            }))}
          />
          <PageButtons page={filter.endpoints} nextToken={nextToken} goTo={goTo} />
        </>
      )}
    </Answer>
  );
}

function stateOf({ pausedAt, failingSince, lastSuccessAt }: Endpoint): string {
  if (pausedAt !== null) return "paused";
  if (failingSince !== null) return "failing";
  return lastSuccessAt === null ? "pending" : "active";
}

function Pause({ project, endpoint }: OfProject & { readonly endpoint: Endpoint }): ReactNode {
  const mayWrite = useMay(project)("webhooks.write");
  const act = (what: "pause" | "resume") => async (): Promise<void> => {
    const params = { path: { project_id: project, endpoint_id: endpoint.id } };
    await ask(api.POST(`${endpointsPath}/{endpoint_id}/${what}`, { params }));
    await webhooksChanged();
  };
  if (!mayWrite) return null;
  return endpoint.pausedAt === null ? (
    <Confirm
      what="Pause"
      to={endpoint.url}
      note="Deliveries wait until it is resumed."
      onAct={act("pause")}
    />
  ) : (
    <Action size="compact-xs" label={`Resume ${endpoint.url}`} onAct={act("resume")}>
      Resume
    </Action>
  );
}

const schedules = {
  standard: "Standard: 10 attempts over about 75 hours",
  short: "Short: 3 attempts, after about 2 and 4 seconds, and fewer kinds of failure are retried",
} as const;

function Schedule({ project }: OfProject): ReactNode {
  const mayWrite = useMay(project)("webhooks.write");
  const params = { path: { project_id: project } };
  const schedule = useQuery({
    queryKey: ["webhooks", "schedule", project],
    queryFn: ({ signal }) => ask(api.GET(schedulePath, { params, signal })),
  });
  const { error, isWaiting, run } = useRun();
  const set = async (chosen: "standard" | "short"): Promise<void> => {
    await ask(api.PUT(schedulePath, { params, body: { schedule: chosen } }));
    await webhooksChanged();
  };
  return (
    <Answer of={schedule}>
      {({ schedule: now }) =>
        mayWrite ? (
          <div className="narrow wider">
            <NativeSelect
              label="Schedule of failed deliveries"
              description="A change is effective from the next attempt on."
              value={now}
              aria-disabled={isWaiting}
              data={Object.entries(schedules).map(([value, label]) => ({ value, label }))}
              onChange={({ currentTarget: { value } }) =>
                void run(() => set(value === "short" ? "short" : "standard"))
              }
            />
            <p className="error" role="alert">
              {error}
            </p>
          </div>
        ) : (
          <p>{schedules[now]}.</p>
        )
      }
    </Answer>
  );
}
