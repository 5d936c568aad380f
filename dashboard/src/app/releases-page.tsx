// The releases of an app with their share of the calls, a roll-out that is under way, and the way back to an earlier one.
import type { ReactNode } from "react";
import { Progress } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { api, ask, askIfThere } from "#api.ts";
import { Action } from "#parts/form.tsx";
import { List } from "#parts/list.tsx";
import { Answer, Facts, Problem, State, Time, useTitle } from "#parts/show.tsx";
import { useMay } from "#permissions.ts";
import { appQuery, pathOf, queryClient, refreshMs, releasesQuery, type AppRef } from "#queries.ts";
import { useApp } from "./app-frame.tsx";
import { Commit } from "./builds-page.tsx";

const rollOutPath = "/v2/projects/{project_id}/apps/{app_id}/rollout";

async function changed(): Promise<void> {
  await Promise.all(["releases", "app", "rollout"].map((name) => queryClient.invalidateQueries({ queryKey: [name] })));
}

/** The page. */
export function ReleasesPage(): ReactNode {
  const ref = useApp();
  const releases = useQuery(releasesQuery(ref));
  const app = useQuery(appQuery(ref));
  const mayChange = useMay(ref.project)("apps.update");
  useTitle("Releases", ref.app);
  return (
    <>
      {typeof app.data?.autoDeployPausedAt === "string" && mayChange ? <ResumeDeploys /> : null}
      <RollOut />
      <Answer of={releases}>
        {({ items }) => (
          <List
            label="Releases"
            columns={[
              "Release",
              "State",
              { head: "Traffic", isNumber: true },
              "Cause",
              "Commit",
              "By",
              "Took calls",
              "",
            ]}
            empty="No release yet: the first build that succeeds makes one."
            rows={items.map((release) => ({
              key: release.id,
              cells: [
                <span key="number" className="strong">
                  v{release.number}
                </span>,
                <span key="state" title={release.endReason ?? undefined}>
                  <State of={release.state} />
                </span>,
                `${release.trafficPercent} %`,
                <Link
                  key="cause"
                  to="/projects/$project/apps/$app/builds/$build"
                  params={{ ...ref, build: release.buildId }}
                >
                  {release.cause}
                </Link>,
                <Commit key="commit" of={release} />,
                release.createdBy?.name ?? release.createdBy?.type ?? "",
                <Time key="promoted" at={release.promotedAt} />,
                release.isStartable && release.state !== "live" && mayChange ? (
                  <RollBack key="back" to={release.number} />
                ) : null,
              ],
            }))}
          />
        )}
      </Answer>
    </>
  );
}

function RollBack({ to }: { readonly to: number }): ReactNode {
  const ref = useApp();
  return (
    <Action
      size="compact-xs"
      onAct={async () => {
        await ask(
          api.POST("/v2/projects/{project_id}/apps/{app_id}/rollback", {
            params: { path: pathOf(ref) },
            body: { release: to },
          }),
        );
        await changed();
      }}
    >
      Roll back to v{to}
    </Action>
  );
}

/** Lets pushes be deployed again. */
export function ResumeDeploys(): ReactNode {
  const ref = useApp();
  return (
    <Action
      onAct={async () => {
        const params = { path: pathOf(ref) };
        await ask(api.POST("/v2/projects/{project_id}/apps/{app_id}/resume-deploys", { params }));
        await changed();
      }}
    >
      Resume automatic deploys
    </Action>
  );
}

/** The roll-out of the moment; null: the app has had none. */
const rollOutOf = (ref: AppRef, signal: AbortSignal) =>
  askIfThere(api.GET(rollOutPath, { params: { path: pathOf(ref) }, signal }));

function RollOut(): ReactNode {
  const ref = useApp();
  const mayChange = useMay(ref.project)("apps.update");
  const { data, error } = useQuery({
    queryKey: ["rollout", ref],
    queryFn: ({ signal }) => rollOutOf(ref, signal),
    refetchInterval: refreshMs,
  });
  if (error !== null) return <Problem error={error} />;
  if (data === undefined || data === null || (data.state !== "running" && data.state !== "paused")) return null;
  const steps =
    data.state === "running" ? (["pause", "finish", "cancel"] as const) : (["resume", "finish", "cancel"] as const);
  return (
    <section aria-label="Roll-out">
      <h2>
        Roll-out of v{data.release} <State of={data.state} />
      </h2>
      <Progress value={data.currentShare} aria-label={`${data.currentShare} % of the calls`} />
      <Facts
        of={[
          ["Share", `${data.currentShare} % of ${data.share} %`],
          ["Failed", `${data.calls.release.failures} of ${data.calls.release.calls} calls`],
          [
            `Failed on v${data.fromRelease}`,
            `${data.calls.fromRelease.failures} of ${data.calls.fromRelease.calls} calls`,
          ],
          ["Next step", <Time key="next" at={data.nextStepAt} />],
        ]}
      />
      {mayChange ? (
        <div className="choices">
          {steps.map((step) => (
            <Action
              key={step}
              onAct={async () => {
                await ask(api.POST(`${rollOutPath}/${step}`, { params: { path: pathOf(ref) } }));
                await changed();
              }}
            >
              {stepTexts[step]}
            </Action>
          ))}
        </div>
      ) : null}
    </section>
  );
}

const stepTexts = {
  pause: "Pause",
  resume: "Resume",
  finish: "Give it all calls now",
  cancel: "Take it back",
} as const;
