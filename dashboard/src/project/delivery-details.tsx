// One delivery in a dialog: its attempts with what the receiver answered, and sending it again.
import type { ReactNode } from "react";
import { Modal } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { api, ask } from "#api.ts";
import { Action } from "#parts/form.tsx";
import { List } from "#parts/list.tsx";
import { Name } from "#parts/name.tsx";
import { plainText } from "#parts/plain-text.ts";
import { durationText, sizeText } from "#parts/quantities.ts";
import { Answer, Facts, State, Time } from "#parts/show.tsx";
import { useMay } from "#permissions.ts";
import { refreshMs } from "#queries.ts";
import { appName } from "./app-name.ts";
import { webhooksChanged } from "./webhook-queries.ts";

const deliveryPath = "/v2/projects/{project_id}/webhook-deliveries/{delivery_id}";

const deliveryOf = (project: string, id: string, signal?: AbortSignal) =>
  ask(
    api.GET(deliveryPath, { params: { path: { project_id: project, delivery_id: id } }, signal }),
  );

type Delivery = Awaited<ReturnType<typeof deliveryOf>>;
type DetailsProps = { readonly project: string; readonly id: string; readonly onClose: () => void };

/** The dialog. */
export function DeliveryDetails({ project, id, onClose }: DetailsProps): ReactNode {
  const delivery = useQuery({
    queryKey: ["webhooks", "one", project, id],
    queryFn: ({ signal }) => deliveryOf(project, id, signal),
    refetchInterval: ({ state }) =>
      typeof state.data?.item.endedAt === "string" ? false : refreshMs,
  });
  return (
    <Modal
      opened
      onClose={onClose}
      title={`Delivery ${id}`}
      size="xl"
      closeButtonProps={{ "aria-label": "Close" }}
    >
      <Answer of={delivery}>
        {({ item, attempts }) => (
          <>
            <Facts of={factsOf(project, item)} />
            <Replay project={project} item={item} />
            <h2>Attempts</h2>
            <List
              label="Attempts"
              columns={[
                { head: "No.", isNumber: true },
                "Started",
                { head: "Took", isNumber: true },
                { head: "Status", isNumber: true },
                "Reason",
                "Answer",
              ]}
              empty="It was not tried yet."
              rows={attempts.map((one) => ({
                key: String(one.number),
                cells: [
                  one.number,
                  <Time key="started" at={one.startedAt} />,
                  durationText(one.durationMs),
                  one.statusCode ?? "–",
                  <span key="reason" className="note">
                    <Name of={one.reason ?? ""} />
                  </span>,
                  one.answer === null || one.answer === "" ? (
                    <span key="answer" className="muted">
                      –
                    </span>
                  ) : (
                    <pre
                      key="answer"
                      className="short-answer"
                      tabIndex={0}
                      aria-label={`Answer ${one.number}`}
                    >
                      {shownAnswer(one.answer)}
                    </pre>
                  ),
                ],
              }))}
            />
          </>
        )}
      </Answer>
    </Modal>
  );
}

/** Line by line, because breaks are meant. */
function shownAnswer(answer: string): string {
  return answer.split("\n").map(plainText).join("\n");
}

function factsOf(project: string, item: Delivery["item"]): (readonly [string, ReactNode])[] {
  return [
    ["State", <State key="state" of={item.state} />],
    ...(item.reason === null ? [] : [["Reason", <Name key="reason" of={item.reason} />] as const]),
    ["To", <Name key="url" of={item.url} />],
    [
      "Run",
      <Link
        key="run"
        to="/projects/$project/apps/$app/runs"
        params={{ project, app: item.appId }}
        search={{ run: item.runId }}
      >
        {item.runId} of {appName(item.appId, project)}
      </Link>,
    ],
    [
      "Delivers",
      `status ${item.statusCode}, ${item.contentType ?? "no content type"}, ${sizeText(item.bodyBytes)}`,
    ],
    ["Created", <Time key="created" at={item.createdAt} />],
    ["Next attempt", <Time key="due" at={item.dueAt} />],
    ["Ended", <Time key="ended" at={item.endedAt} />],
  ];
}

function Replay({
  project,
  item,
}: {
  readonly project: string;
  readonly item: Delivery["item"];
}): ReactNode {
  const mayWrite = useMay(project)("webhooks.write");
  if (item.endedAt === null || !mayWrite) return null;
  if (!item.isReplayable)
    return <p className="muted">What it delivers is no longer kept: it cannot be replayed.</p>;
  return (
    <Action
      onAct={async () => {
        const params = { path: { project_id: project, delivery_id: item.id } };
        await ask(api.POST(`${deliveryPath}/replay`, { params }));
        await webhooksChanged();
      }}
    >
      Replay
    </Action>
  );
}
