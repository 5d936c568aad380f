// What stops an app from answering: a stop, a restart, and its deletion.
import { useState, type ReactNode } from "react";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { api, ask } from "#api.ts";
import { DeleteByName } from "#parts/delete-by-name.tsx";
import { Action } from "#parts/form.tsx";
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
  const navigate = useNavigate();
  const [message, setMessage] = useState("");
  useTitle("Danger", ref.app);
  const act = (what: "start" | "stop" | "restart") => async (): Promise<void> => {
    const answer = await ask(api.POST(`${appPath}/${what}`, { params: { path: pathOf(ref) } }));
    setMessage("message" in answer ? String(answer.message) : "");
    await queryClient.invalidateQueries({ queryKey: ["app"] });
  };
  const remove = async (): Promise<void> => {
    await ask(api.DELETE(appPath, { params: { path: pathOf(ref) } }));
    await navigate({ to: "/projects/$project", params: { project: ref.project } });
    await queryClient.invalidateQueries({ queryKey: ["apps"] });
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
                  <p>
                    It takes no calls until somebody starts it, and its replicas end after the calls
                    they have.
                  </p>
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
            <DeleteByName kind="app" name={detail.name} onDelete={remove}>
              Ends its calls, runs and builds, and removes its releases, logs, secrets and storage
              of its own.
            </DeleteByName>
          ) : (
            <p className="muted">Your role does not allow you to delete apps.</p>
          )}
        </>
      )}
    </Answer>
  );
}
