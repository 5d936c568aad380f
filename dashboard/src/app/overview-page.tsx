// An app at a glance: its address, commands that call it, a panel that tries it, and what it is
// made of.
import { lazy, Suspense, type ReactNode } from "react";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Name } from "#parts/name.tsx";
import { counted } from "#parts/quantities.ts";
import { Answer, CopyIcon, Facts, State, Time, useTitle, Waiting } from "#parts/show.tsx";
import { appQuery, buildsQuery, replicasQuery, type AppDetail } from "#queries.ts";
import { useApp } from "./app-frame.tsx";
import { Commands } from "./call-commands.tsx";
import { Charts } from "./chart-range.tsx";

const TryIt = lazy(async () => ({ default: (await import("./try-it.tsx")).TryIt }));

/** For people, such as `1 core, 2 GB, 4 GPUs`. */
function hardwareOf({
  cpu,
  memory,
  gpuCount,
}: Pick<AppDetail, "cpu" | "memory" | "gpuCount">): string {
  return [
    counted(cpu, "core"),
    `${memory} GB`,
    ...(gpuCount === "0" ? [] : [counted(gpuCount, "GPU")]),
  ].join(", ");
}

function PageLink({ of: { pageUrl } }: { readonly of: Pick<AppDetail, "pageUrl"> }): ReactNode {
  if (pageUrl === null) return null;
  return (
    <p>
      In a browser:{" "}
      <a href={pageUrl} target="_blank" rel="noreferrer">
        {pageUrl}
      </a>
    </p>
  );
}

/** The page. */
export function OverviewPage(): ReactNode {
  const ref = useApp();
  const app = useQuery(appQuery(ref));
  useTitle(app.data?.name ?? ref.app);
  return (
    <Answer of={app}>
      {(detail) => (
        <>
          <div className="columns">
            <div>
              <section>
                <h2>Endpoint</h2>
                <div className="endpoint">
                  <code>{detail.internalEndpoint}</code>
                  <CopyIcon text={detail.internalEndpoint} label="Copy the endpoint" />
                </div>
                <PageLink of={detail} />
                <Commands
                  url={detail.internalEndpoint}
                  isOpen={detail.disableAuth}
                  isCustom={detail.runtime === "custom"}
                />
              </section>
              <section>
                <h2>Try it</h2>
                {detail.liveRelease === null ? (
                  <p className="muted">
                    There is no release yet. It can be called once a build has succeeded.
                  </p>
                ) : (
                  <Suspense fallback={<Waiting />}>
                    <TryIt
                      app={ref}
                      endpoint={detail.internalEndpoint}
                      isOpen={detail.disableAuth}
                      isCustom={detail.runtime === "custom"}
                    />
                  </Suspense>
                )}
              </section>
            </div>
            <section>
              <h2>Now</h2>
              <Now />
              <h2>Made of</h2>
              <Facts
                of={[
                  ["Repository", repositoryOf(detail)],
                  ["Runtime", detail.runtime],
                  ["Hardware", `${detail.hardware}, ${hardwareOf(detail)}`],
                  [
                    "Replicas",
                    `${detail.minReplicaCount} to ${detail.maxReplicaCount}, ${counted(detail.replicaConcurrency, "call")} each`,
                  ],
                  ["Callers", detail.disableAuth ? "anyone" : "with a token"],
                  ["Changed", <Time key="changed" at={detail.updatedAt} />],
                ]}
              />
            </section>
          </div>
          <Charts of="calls" ranges={["hour", "day"]} />
        </>
      )}
    </Answer>
  );
}

/** Where the code of an app comes from, in words. */
export function repositoryOf({
  gitRepo,
  gitBranch,
  gitPath,
}: {
  readonly gitRepo: string | null;
  readonly gitBranch: string;
  readonly gitPath: string;
}): string {
  if (gitRepo === null) return "none: files are uploaded";
  return `${gitRepo} at ${gitBranch}${gitPath === "" ? "" : `, folder ${gitPath}`}`;
}

function Now(): ReactNode {
  const ref = useApp();
  const app = useQuery(appQuery(ref));
  const builds = useQuery(buildsQuery(ref));
  const replicas = useQuery(replicasQuery(ref));
  const latest = builds.data?.[0];
  const running = replicas.data?.filter(
    ({ containerState }) => containerState === "RUNNING",
  ).length;
  return (
    <Facts
      of={[
        [
          "Release",
          typeof app.data?.liveRelease === "number" ? `v${app.data.liveRelease}` : "none",
        ],
        [
          "Replicas",
          replicas.data === undefined ? "" : `${running} ready of ${replicas.data.length}`,
        ],
        [
          "Latest build",
          latest === undefined ? (
            "none"
          ) : (
            <span key="build">
              <Link
                to="/projects/$project/apps/$app/builds/$build"
                params={{ ...ref, build: latest.id }}
              >
                #{latest.number}
              </Link>{" "}
              <State of={latest.status} /> <Name of={latest.reason ?? ""} />
            </span>
          ),
        ],
      ]}
    />
  );
}
