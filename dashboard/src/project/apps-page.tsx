// The apps of a project: first those that need somebody, then the rest by name. A project without apps says how to make one.
import type { ReactNode } from "react";
import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { List } from "#parts/list.tsx";
import { Answer, State, Time, useTitle } from "#parts/show.tsx";
import { useMay } from "#permissions.ts";
import { appsQuery, projectReplicasQuery } from "#queries.ts";
import { FirstApp } from "./first-app.tsx";

type App = {
  readonly id: string;
  readonly name: string;
  readonly status: string;
  readonly updatedAt: string;
  readonly waitReason: string | null;
  readonly autoDeployPausedReason: string | null;
};

/** The page. */
export function AppsPage(): ReactNode {
  const { project = "" } = useParams({ strict: false });
  const apps = useQuery(appsQuery(project));
  const may = useMay(project);
  useTitle("Apps", project);
  return (
    <Answer of={apps}>
      {(all) => (
        <>
          <div className="title">
            <h1>Apps</h1>
            {all.length > 0 && may("apps.create") ? (
              <Link className="as-button" to="/projects/$project/new" params={{ project }}>
                New app
              </Link>
            ) : null}
          </div>
          {all.length === 0 ? <FirstApp project={project} /> : <Apps project={project} all={all} />}
        </>
      )}
    </Answer>
  );
}

/** What somebody has to look at comes first. */
function urgency({ status, waitReason, autoDeployPausedReason }: App): number {
  if (status === "FAILED") return 0;
  if (waitReason !== null) return 1;
  return autoDeployPausedReason === null ? 3 : 2;
}

function noteOf({ status, waitReason, autoDeployPausedReason: paused }: App): string {
  const notes = [
    status === "FAILED" && waitReason === null ? "The latest build failed." : null,
    waitReason,
    paused === null ? null : `Automatic deploys are paused. ${paused}`,
  ];
  return notes.filter((note) => note !== null).join(" ");
}

function Apps({ project, all }: { readonly project: string; readonly all: readonly App[] }): ReactNode {
  const sorted = [...all].sort((a, b) => urgency(a) - urgency(b) || a.name.localeCompare(b.name));
  const replicas = useQuery(projectReplicasQuery(project)).data;
  const countOf = (id: string): string =>
    replicas === undefined ? "" : String(replicas.filter(({ appId }) => appId === id).length);
  return (
    <List
      label="Apps"
      columns={["App", "State", { head: "Replicas", isNumber: true }, "Changed", "Note"]}
      rows={sorted.map((app) => ({
        key: app.id,
        cells: [
          <Link key="name" className="strong" to="/projects/$project/apps/$app" params={{ project, app: app.id }}>
            {app.name}
          </Link>,
          <State key="state" of={app.status} />,
          countOf(app.id),
          <Time key="changed" at={app.updatedAt} />,
          <span key="note" className="note">
            {noteOf(app)}
          </span>,
        ],
      }))}
    />
  );
}
