// The deliveries to the webhooks of a project, newest first, by state, endpoint and run; and
// replaying many of them.
import { useState, type ReactNode } from "react";
import { Button, NativeSelect } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { deliveryStates } from "@slipway/contract/words.ts";
import { api, ask } from "#api.ts";
import { FieldForm } from "#parts/form.tsx";
import { List } from "#parts/list.tsx";
import { Name } from "#parts/name.tsx";
import { PageButtons } from "#parts/page-buttons.tsx";
import { Answer, Short, State, Time } from "#parts/show.tsx";
import { useMay } from "#permissions.ts";
import { refreshMs } from "#queries.ts";
import { appName } from "./app-name.ts";
import { DeliveryDetails } from "./delivery-details.tsx";
import { webhooksChanged, type WebhookFilter } from "./webhook-queries.ts";

const deliveriesPath = "/v2/projects/{project_id}/webhook-deliveries";

function queryOf({ state, endpoint, run, page }: WebhookFilter) {
  const known = deliveryStates.find((one) => one === state);
  return {
    pageSize: 50,
    ...(known === undefined ? {} : { state: known }),
    ...(endpoint === undefined ? {} : { endpointId: endpoint }),
    ...(run === undefined ? {} : { runId: run }),
    ...(page === undefined ? {} : { nextToken: page }),
  };
}

const deliveriesOf = (project: string, filter: WebhookFilter, signal: AbortSignal) =>
  ask(
    api.GET(deliveriesPath, {
      params: { path: { project_id: project }, query: queryOf(filter) },
      signal,
    }),
  );

type Delivery = Awaited<ReturnType<typeof deliveriesOf>>["items"][number];

/** The list with its filters. */
export function Deliveries({ project }: { readonly project: string }): ReactNode {
  const filter: WebhookFilter = useSearch({ strict: false });
  const navigate = useNavigate();
  const may = useMay(project);
  const deliveries = useQuery({
    queryKey: ["webhooks", "deliveries", project, queryOf(filter)],
    queryFn: ({ signal }) => deliveriesOf(project, filter, signal),
    // Older pages do not change much, and whoever reads them wants them to stay.
    refetchInterval: filter.page === undefined ? refreshMs : false,
  });
  const goTo = (change: WebhookFilter): void => {
    void navigate({
      to: ".",
      search: { ...filter, page: undefined, delivery: undefined, ...change },
    });
  };
  return (
    <>
      <div className="filters">
        <NativeSelect
          label="State"
          value={filter.state ?? ""}
          data={[{ value: "", label: "all" }, ...deliveryStates]}
          onChange={(event) => goTo({ state: event.currentTarget.value || undefined })}
        />
        {filter.endpoint === undefined ? null : (
          <Button variant="default" onClick={() => goTo({ endpoint: undefined })}>
            All endpoints
          </Button>
        )}
        {filter.run === undefined ? null : (
          <Button variant="default" onClick={() => goTo({ run: undefined })}>
            All runs
          </Button>
        )}
      </div>
      <Answer of={deliveries}>
        {({ items, nextToken }) => (
          <>
            <Rows project={project} items={items} filter={filter} />
            <PageButtons page={filter.page} nextToken={nextToken} goTo={(page) => goTo({ page })} />
          </>
        )}
      </Answer>
      {may("webhooks.write") ? <ReplayMany project={project} endpoint={filter.endpoint} /> : null}
      {filter.delivery === undefined ? null : (
        <DeliveryDetails
          project={project}
          id={filter.delivery}
          onClose={() => goTo({ page: filter.page })}
        />
      )}
    </>
  );
}

type RowsProps = {
  readonly project: string;
  readonly items: readonly Delivery[];
  readonly filter: WebhookFilter;
};

function Rows({ project, items, filter }: RowsProps): ReactNode {
  const isFiltered =
    filter.state !== undefined || filter.endpoint !== undefined || filter.run !== undefined;
  return (
    <List
      label="Deliveries"
      columns={[
        "Delivery",
        "State",
        "App",
        "To",
        { head: "Status", isNumber: true },
        { head: "Attempts", isNumber: true },
        "Created",
        "Next attempt",
        "Reason",
      ]}
      empty={isFiltered ? "No deliveries fit." : "No deliveries yet."}
      rows={items.map((one) => ({
        key: one.id,
        cells: [
          <Link
            key="id"
            to="/projects/$project/webhooks"
            params={{ project }}
            search={{ ...filter, delivery: one.id }}
          >
            <Short id={one.id} />
          </Link>,
          <State key="state" of={one.state} />,
          <Name key="app" of={appName(one.appId, project)} />,
          <Name key="url" of={one.url} />,
          one.statusCode,
          one.attempts,
          <Time key="created" at={one.createdAt} />,
          <Time key="due" at={one.dueAt} />,
          <span key="reason" className="note">
            <Name of={one.reason ?? ""} />
          </span>,
        ],
      }))}
    />
  );
}

/** As a field for times shows it, in the reader's zone. */
function fieldTime(ms: number): string {
  const local = new Date(ms - new Date(ms).getTimezoneOffset() * 60_000);
  return local.toISOString().slice(0, 16);
}

const dayMs = 86_400_000;
const timeField = { type: "datetime-local", autoComplete: "off", required: true } as const;

type ReplayProps = { readonly project: string; readonly endpoint: string | undefined };

function ReplayMany({ project, endpoint }: ReplayProps): ReactNode {
  const [said, setSaid] = useState("");
  return (
    <details className="narrow">
      <summary>Replay many</summary>
      <FieldForm
        label="Replay deliveries"
        submit="Replay them"
        before={
          <p className="muted">
            {endpoint === undefined
              ? "Sends ended deliveries to all endpoints again."
              : "Sends ended deliveries to the chosen endpoint again."}{" "}
            Receivers tell by the webhook-id that they have seen one.
          </p>
        }
        fields={[
          {
            name: "from",
            label: "Created from",
            defaultValue: fieldTime(Date.now() - dayMs),
            ...timeField,
          },
          {
            name: "to",
            label: "Created before",
            defaultValue: fieldTime(Date.now() + 60_000),
            ...timeField,
          },
        ]}
        more={<NativeSelect name="state" label="Which" data={["failed", "delivered"]} />}
        after={<p role="status">{said}</p>}
        onSubmit={async ({ from = "", to = "", state }) => {
          setSaid("");
          const body = {
            from: new Date(from).toISOString(),
            to: new Date(to).toISOString(),
            state: state === "delivered" ? ("delivered" as const) : ("failed" as const),
            ...(endpoint === undefined ? {} : { endpointId: endpoint }),
          };
          const params = { path: { project_id: project } };
          const { replayed, hasMore } = await ask(
            api.POST(`${deliveriesPath}/replay`, { params, body }),
          );
          setSaid(`${replayed} replayed.${hasMore ? " There are more: replay again." : ""}`);
          await webhooksChanged();
        }}
      />
    </details>
  );
}
