// One run in a dialog: where its time went, what is known of it, its lines of the log, its result,
// and what can be done with it.
import { useState, type ReactNode } from "react";
import { Modal } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { api, ask } from "#api.ts";
import { Action } from "#parts/form.tsx";
import { Name } from "#parts/name.tsx";
import { Answer, Facts, Short, State, Time } from "#parts/show.tsx";
import { useMay } from "#permissions.ts";
import { pathOf, refreshMs, runsChanged, type AppRef } from "#queries.ts";
import { useApp } from "./app-frame.tsx";
import { AppLog } from "./app-log.tsx";
import { RunTimeline } from "./run-timeline.tsx";

const runPath = "/v2/projects/{project_id}/apps/{app_id}/runs/{run_id}";
const paramsOf = (ref: AppRef, id: string) => ({ path: { ...pathOf(ref), run_id: id } });
const runOf = (ref: AppRef, id: string, signal?: AbortSignal) =>
  ask(api.GET(runPath, { params: paramsOf(ref, id), signal }));

type Run = Awaited<ReturnType<typeof runOf>>["item"];

/** Results are shown up to this length. */
const lengthMax = 100_000;

/** The dialog. */
export function RunDetails({
  id,
  onClose,
}: {
  readonly id: string;
  readonly onClose: () => void;
}): ReactNode {
  const ref = useApp();
  const mayReadLogs = useMay(ref.project)("logs.read");
  const run = useQuery({
    queryKey: ["runs", "one", ref, id],
    queryFn: ({ signal }) => runOf(ref, id, signal),
    refetchInterval: ({ state }) =>
      typeof state.data?.item.endedAt === "string" ? false : refreshMs,
  });
  return (
    <Modal
      opened
      onClose={onClose}
      title={`Run ${id}`}
      size="xl"
      closeButtonProps={{ "aria-label": "Close" }}
    >
      <Answer of={run}>
        {({ item }) => (
          <>
            <p className="run-state">
              <State of={item.status} />
              {item.reason === null ? null : <Name of={item.reason} />}
            </p>
            <RunTimeline run={item} />
            {item.attempts > 1 ? (
              <p className="muted">
                These are the times of attempt {item.attempts}; what earlier ones took is part of
                the waiting.
              </p>
            ) : null}
            <Facts isWide of={factsOf(ref, item)} />
            <Changes run={item} />
            {item.async && item.endedAt !== null ? <Result id={id} /> : null}
            {mayReadLogs ? <Log id={id} /> : null}
          </>
        )}
      </Answer>
    </Modal>
  );
}

function factsOf(ref: AppRef, run: Run): (readonly [string, ReactNode])[] {
  return [
    ["Kind", kindOf(run)],
    ["Request", <Name key="request" of={`${run.method} /${run.functionName}`} />],
    ["From", <Name key="from" of={run.ip} />],
    ...(run.statusCode === null ? [] : [["Status", run.statusCode] as const]),
    ["Attempts", run.attempts],
    ["Releases", run.releases.map((number) => `v${number}`).join(", ") || "–"],
    ...(run.containerId === null
      ? []
      : [
          [
            "Replica",
            <Link
              key="replica"
              to="/projects/$project/apps/$app/logs"
              params={ref}
              search={{ replica: run.containerId }}
            >
              <Short id={run.containerId} />
            </Link>,
          ] as const,
        ]),
    ["Created", <Time key="created" at={run.createdAt} />],
    ["Started", <Time key="started" at={run.startedAt} />],
    ["Ended", <Time key="ended" at={run.endedAt} />],
    ...(run.webhookEndpoint === null
      ? []
      : [["Webhook", <Name key="webhook" of={run.webhookEndpoint} />] as const]),
    ...(run.redrivenAs === null
      ? []
      : [["Run again as", <Again key="again" id={run.redrivenAs} />] as const]),
  ];
}

/** What the call was. */
export function kindOf({ async: isAsync, websocket }: Pick<Run, "async" | "websocket">): string {
  if (isAsync) return "async";
  return websocket ? "websocket" : "call";
}

function Again({ id }: { readonly id: string }): ReactNode {
  return (
    <Link to="/projects/$project/apps/$app/runs" params={useApp()} search={{ run: id }}>
      <Short id={id} />
    </Link>
  );
}

/** Shows the run's own log lines, the latest in sight. */
function Log({ id }: { readonly id: string }): ReactNode {
  const ref = useApp();
  return (
    <section className="short-log" aria-label="Log of the run">
      <div className="title">
        <h2>Log</h2>
        <Link to="/projects/$project/apps/$app/logs" params={ref} search={{ run: id }}>
          Its log alone
        </Link>
      </div>
      <AppLog
        app={ref}
        filter={{ run: id }}
        label="Log of the run"
        empty="Nothing printed, or it is no longer kept."
      />
    </section>
  );
}

function Changes({ run }: { readonly run: Run }): ReactNode {
  const ref = useApp();
  const may = useMay(ref.project);
  const navigate = useNavigate();
  const params = paramsOf(ref, run.id);
  if (!run.async) return null;
  if (run.endedAt === null && may("runs.cancel")) {
    return (
      <Action
        onAct={async () => {
          await ask(api.DELETE(runPath, { params }));
          await runsChanged();
        }}
      >
        Cancel the run
      </Action>
    );
  }
  const isDead = run.status === "failure" || run.status === "timeout";
  if (!isDead || run.redrivenAs !== null || !may("runs.redrive")) return null;
  return (
    <Action
      onAct={async () => {
        const { runId } = await ask(api.POST(`${runPath}/redrive`, { params }));
        await runsChanged();
        await navigate({ to: ".", search: { run: runId } });
      }}
    >
      Run it again
    </Action>
  );
}

function Result({ id }: { readonly id: string }): ReactNode {
  const ref = useApp();
  const [isWanted, setWanted] = useState(false);
  const result = useQuery({
    queryKey: ["result", ref, id],
    queryFn: ({ signal }) =>
      ask(
        api.GET(`${runPath}/result`, { params: paramsOf(ref, id), parseAs: "text", signal }),
      ) as Promise<string>,
    enabled: isWanted,
    staleTime: Infinity,
  });
  if (!isWanted) {
    return (
      <button type="button" className="as-link" onClick={() => setWanted(true)}>
        Show the result
      </button>
    );
  }
  return (
    <Answer of={result}>
      {(text) => (
        <pre className="answer" tabIndex={0} aria-label="Result">
          {text.length > lengthMax ? `${text.slice(0, lengthMax)}\n… the rest is not shown` : text}
        </pre>
      )}
    </Answer>
  );
}
