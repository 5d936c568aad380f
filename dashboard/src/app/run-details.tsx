// One run in a dialog: what happened when, its result, and what can be done with it.
import { useState, type ReactNode } from "react";
import { Modal } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { api, ask } from "#api.ts";
import { Action } from "#parts/form.tsx";
import { Answer, durationText, Facts, State, Time } from "#parts/show.tsx";
import { useMay } from "#permissions.ts";
import { pathOf, refreshMs, runsChanged, type AppRef } from "#queries.ts";
import { useApp } from "./app-frame.tsx";

const runPath = "/v2/projects/{project_id}/apps/{app_id}/runs/{run_id}";
const paramsOf = (ref: AppRef, id: string) => ({ path: { ...pathOf(ref), run_id: id } });
const runOf = (ref: AppRef, id: string, signal?: AbortSignal) =>
  ask(api.GET(runPath, { params: paramsOf(ref, id), signal }));

type Run = Awaited<ReturnType<typeof runOf>>["item"];

/** Results are shown up to this length. */
const lengthMax = 100_000;

/** The dialog. */
export function RunDetails({ id, onClose }: { readonly id: string; readonly onClose: () => void }): ReactNode {
  const ref = useApp();
  const run = useQuery({
    queryKey: ["runs", "one", ref, id],
    queryFn: ({ signal }) => runOf(ref, id, signal),
    refetchInterval: ({ state }) => (typeof state.data?.item.endedAt === "string" ? false : refreshMs),
  });
  return (
    <Modal opened onClose={onClose} title={`Run ${id}`} size="xl" closeButtonProps={{ "aria-label": "Close" }}>
      <Answer of={run}>
        {({ item }) => (
          <>
            <Facts of={factsOf(item)} />
            <p>
              <Link to="/projects/$project/apps/$app/logs" params={ref} search={{ run: id }}>
                Its log
              </Link>
            </p>
            <Changes run={item} />
            {item.async && item.endedAt !== null ? <Result id={id} /> : null}
          </>
        )}
      </Answer>
    </Modal>
  );
}

function factsOf(run: Run): (readonly [string, ReactNode])[] {
  return [
    ["State", <State key="state" of={run.status} />],
    ...(run.reason === null ? [] : [["Reason", run.reason] as const]),
    ["Request", `${run.method} ${run.functionName}`],
    ...(run.statusCode === null ? [] : [["Status", run.statusCode] as const]),
    ["Attempts", run.attempts],
    ["Releases", run.releases.map((number) => `v${number}`).join(", ") || "–"],
    ["Waited", durationText(run.totalQueueTimeMs)],
    ["Ran", durationText(run.executionTimeMs)],
    ["Created", <Time key="created" at={run.createdAt} />],
    ["Started", <Time key="started" at={run.startedAt} />],
    ["Ended", <Time key="ended" at={run.endedAt} />],
    ...(run.webhookEndpoint === null ? [] : [["Webhook", run.webhookEndpoint] as const]),
    ...(run.redrivenAs === null ? [] : [["Redriven as", run.redrivenAs] as const]),
  ];
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
      ask(api.GET(`${runPath}/result`, { params: paramsOf(ref, id), parseAs: "text", signal })) as Promise<string>,
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
