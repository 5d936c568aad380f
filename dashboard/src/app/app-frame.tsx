// What surrounds the pages of an app: its name and state, what it waits for, and links to its
// pages.
import type { ReactNode } from "react";
import { useQuery } from "@tanstack/react-query";
import { Link, Outlet, useParams } from "@tanstack/react-router";
import { failedBuildNote, type BuiltApp } from "@slipway/contract/failed-build.ts";
import { Name } from "#parts/name.tsx";
import { Answer, State } from "#parts/show.tsx";
import { Tabs, type Tab } from "#parts/tabs.tsx";
import { useMay } from "#permissions.ts";
import { appQuery, type AppRef } from "#queries.ts";
import { ForSignedIn } from "#shell.tsx";

/** The app that the address names. */
export function useApp(): AppRef {
  const { project = "", app = "" } = useParams({ strict: false });
  return { project, app };
}

/** The frame. */
export function AppFrame(): ReactNode {
  return (
    <ForSignedIn>
      <Frame />
    </ForSignedIn>
  );
}

/** The pages, with the permission that each one needs. */
export const appPages = [
  ["Overview", "/projects/$project/apps/$app", "apps.read"],
  ["Builds", "/projects/$project/apps/$app/builds", "apps.read"],
  ["Logs", "/projects/$project/apps/$app/logs", "logs.read"],
  ["Runs", "/projects/$project/apps/$app/runs", "runs.read"],
  ["Releases", "/projects/$project/apps/$app/releases", "apps.read"],
  ["Replicas", "/projects/$project/apps/$app/replicas", "apps.read"],
  ["Git", "/projects/$project/apps/$app/git", "apps.read"],
  ["Domains", "/projects/$project/apps/$app/domains", "apps.read"],
  ["Settings", "/projects/$project/apps/$app/settings", "apps.read"],
  ["Secrets", "/projects/$project/apps/$app/secrets", "secrets.read"],
  ["Danger", "/projects/$project/apps/$app/danger", "apps.update"],
] as const;

function Frame(): ReactNode {
  const ref = useApp();
  const may = useMay(ref.project);
  const app = useQuery(appQuery(ref));
  const tabs: Tab[] = appPages
    .filter(([, , permission]) => may(permission))
    .map(([name, to]) => ({ name, to, params: ref, isWhole: name === "Overview" }));
  return (
    <Answer of={app}>
      {(detail) => (
        <>
          <div className="title">
            <h1>{detail.name}</h1>
            <State of={detail.status} />
          </div>
          {detail.waitReason === null ? null : (
            <p className="attention">
              <Name of={detail.waitReason} />
            </p>
          )}
          <FailedBuild app={detail} />
          {detail.autoDeployPausedReason === null ? null : (
            <p className="attention">
              Automatic deploys are paused. <Name of={detail.autoDeployPausedReason} />
            </p>
          )}
          <Tabs label="App" of={tabs} />
          <Outlet />
        </>
      )}
    </Answer>
  );
}

/** Nothing, unless the app serves although its newest build failed. */
function FailedBuild({
  app,
}: {
  readonly app: BuiltApp & { readonly latestBuildId: string | null };
}): ReactNode {
  const ref = useApp();
  const note = failedBuildNote(app, "");
  if (note === null || app.latestBuildId === null) return null;
  return (
    <p className="attention">
      <Name of={note} />{" "}
      <Link
        to="/projects/$project/apps/$app/builds/$build"
        params={{ ...ref, build: app.latestBuildId }}
      >
        See the build
      </Link>
    </p>
  );
}
