// The builds of an app, newest first.
import type { ReactNode } from "react";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { api, ask } from "#api.ts";
import { Action } from "#parts/form.tsx";
import { List } from "#parts/list.tsx";
import { Name } from "#parts/name.tsx";
import { durationText } from "#parts/quantities.ts";
import { Answer, Short, State, Time, useTitle } from "#parts/show.tsx";
import { useMay } from "#permissions.ts";
import { appQuery, buildsQuery, pathOf } from "#queries.ts";
import { useApp } from "./app-frame.tsx";

type Build = {
  readonly startedAt: string | null;
  readonly endedAt: string | null;
  readonly commit: string | null;
  readonly commitMessage: string | null;
};

/** The page. */
export function BuildsPage(): ReactNode {
  const ref = useApp();
  const builds = useQuery(buildsQuery(ref));
  const app = useQuery(appQuery(ref));
  const may = useMay(ref.project);
  useTitle("Builds", app.data?.name ?? ref.app);
  return (
    <>
      {may("builds.create") && typeof app.data?.gitRepo === "string" ? (
        <div className="filters">
          <BuildNow />
        </div>
      ) : null}
      <Answer of={builds}>
        {(all) => (
          <List
            label="Builds"
            columns={[
              "Build",
              "Status",
              "Cause",
              "Commit",
              "Created",
              { head: "Took", isNumber: true },
              "Reason",
            ]}
            empty="No builds yet."
            rows={all.map((build) => ({
              key: build.id,
              cells: [
                <Link
                  key="number"
                  className="strong"
                  to="/projects/$project/apps/$app/builds/$build"
                  params={{ ...ref, build: build.id }}
                >
                  #{build.number}
                </Link>,
                <State key="status" of={build.status} />,
                build.cause,
                <Commit key="commit" of={build} />,
                <Time key="created" at={build.createdAt} />,
                tookOf(build),
                <span key="reason" className="note">
                  <Name of={build.reason ?? ""} />
                </span>,
              ],
            }))}
          />
        )}
      </Answer>
    </>
  );
}

/** How long it has taken. */
export function tookOf({ startedAt, endedAt }: Build): string {
  if (startedAt === null) return "";
  return durationText(
    (endedAt === null ? Date.now() : Date.parse(endedAt)) - Date.parse(startedAt),
  );
}

/** The first digits of a commit with the first line of its message. */
export function Commit({
  of: { commit, commitMessage },
}: {
  readonly of: Pick<Build, "commit" | "commitMessage">;
}): ReactNode {
  if (commit === null) return <span className="muted">–</span>;
  return (
    <span className="commit">
      <Short id={commit} isCommit /> <Name of={commitMessage?.split("\n")[0] ?? ""} />
    </span>
  );
}

function BuildNow(): ReactNode {
  const ref = useApp();
  const navigate = useNavigate();
  return (
    <Action
      onAct={async () => {
        const params = { path: pathOf(ref) };
        const { buildId } = await ask(
          api.POST("/v2/projects/{project_id}/apps/{app_id}/builds", { params, body: {} }),
        );
        await navigate({
          to: "/projects/$project/apps/$app/builds/$build",
          params: { ...ref, build: buildId },
        });
      }}
    >
      Build the newest commit
    </Action>
  );
}
