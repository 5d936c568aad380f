// What stops an app from answering: a stop, a restart, and its deletion.
import { useState, type ReactNode } from "react";
import { Button, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { api, ask } from "#api.ts";
import { Action, useRun } from "#parts/form.tsx";
import { Answer, useTitle } from "#parts/show.tsx";
import { useMay } from "#permissions.ts";
import { appQuery, pathOf, queryClient } from "#queries.ts";
import { useApp } from "./app-frame.tsx";

const appPath = "/v2/projects/{project_id}/apps/{app_id}";

/** The page. */
export function DangerPage(): ReactNode {
  const ref = useApp();
  const app = useQuery(appQuery(ref));
  const may = useMay(ref.project);
  const [message, setMessage] = useState("");
  useTitle("Danger", ref.app);
  const act = (what: "start" | "stop" | "restart") => async (): Promise<void> => {
    const answer = await ask(api.POST(`${appPath}/${what}`, { params: { path: pathOf(ref) } }));
    setMessage("message" in answer ? String(answer.message) : "");
    await queryClient.invalidateQueries({ queryKey: ["app"] });
  };
  return (
    <Answer of={app}>
      {(detail) => (
        <>
          <p role="status">{message}</p>
          <section className="danger">
            {detail.status === "STOPPED" ? (
              <>
                <div>
                  <h2>Start</h2>
                  <p>It takes calls again; the next one starts a replica.</p>
                </div>
                <Action onAct={act("start")}>Start the app</Action>
              </>
            ) : (
              <>
                <div>
                  <h2>Stop</h2>
                  <p>It takes no calls until somebody starts it, and its replicas end after the calls they have.</p>
                </div>
                <Action onAct={act("stop")}>Stop the app</Action>
              </>
            )}
          </section>
          <section className="danger">
            <div>
              <h2>Restart</h2>
              <p>Replaces its replicas, one after the other. Calls are answered meanwhile.</p>
            </div>
            <Action onAct={act("restart")}>Restart the replicas</Action>
          </section>
          {may("apps.delete") ? (
            <Delete name={detail.name} />
          ) : (
            <p className="muted">Your role does not allow you to delete apps.</p>
          )}
        </>
      )}
    </Answer>
  );
}

function Delete({ name }: { readonly name: string }): ReactNode {
  const ref = useApp();
  const navigate = useNavigate();
  const { error, isWaiting, run } = useRun();
  const [typed, setTyped] = useState("");
  const remove = async (): Promise<void> => {
    await ask(api.DELETE(appPath, { params: { path: pathOf(ref) } }));
    await navigate({ to: "/projects/$project", params: { project: ref.project } });
    await queryClient.invalidateQueries({ queryKey: ["apps"] });
  };
  return (
    <section className="danger">
      <div>
        <h2>Delete</h2>
        <p>Ends its calls, runs and builds, and removes its releases, logs and secrets. It cannot be undone.</p>
      </div>
      <form
        className="form"
        onSubmit={(event) => {
          event.preventDefault();
          if (typed === name) void run(remove);
        }}
      >
        <TextInput
          label={`Type ${name} to delete it`}
          autoComplete="off"
          spellCheck={false}
          value={typed}
          onChange={(event) => setTyped(event.currentTarget.value)}
        />
        <p className="error" role="alert">
          {error}
        </p>
        <Button type="submit" color="red" disabled={typed !== name} aria-disabled={isWaiting}>
          Delete the app
        </Button>
      </form>
    </section>
  );
}
