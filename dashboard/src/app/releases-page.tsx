// The releases of an app with their share of the calls, a roll-out that is under way, and the way
// back to an earlier one.
import type { ReactNode } from "react";
import { Progress } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { api, ask, askIfThere } from "#api.ts";
import { Action } from "#parts/form.tsx";
import { List } from "#parts/list.tsx";
import { Name } from "#parts/name.tsx";
import { durationText } from "#parts/quantities.ts";
import { Answer, Facts, Problem, State, Time, useTitle } from "#parts/show.tsx";
import { useMay } from "#permissions.ts";
import { appQuery, pathOf, queryClient, refreshMs, releasesQuery, type AppRef } from "#queries.ts";
import { useApp } from "./app-frame.tsx";
import { Commit } from "./builds-page.tsx";
import { CompareReleases } from "./release-compare.tsx";

const rollOutPath = "/v2/projects/{project_id}/apps/{app_id}/rollout";

async function changed(): Promise<void> {
  await Promise.all(
    ["releases", "app", "rollout"].map((name) =>
      queryClient.invalidateQueries({ queryKey: [name] }),
    ),
  );
}

type Served = {
  readonly number: number;
  readonly trafficPercent: number;
  /** Null: no replica of the app takes calls now. */
  readonly currentPercent: number | null;
};

/** The page. */
export function ReleasesPage(): ReactNode {
  const ref = useApp();
  const releases = useQuery(releasesQuery(ref));
  const app = useQuery(appQuery(ref));
  const mayChange = useMay(ref.project)("apps.update");
  useTitle("Releases", ref.app);
  return (
    <>
      {typeof app.data?.autoDeployPausedAt === "string" && mayChange ? (
        <div className="before-list">
          <ResumeDeploys />
        </div>
      ) : null}
      <RollOut />
      <Answer of={releases}>
        {({ items }) => (
          <>
            <Traffic of={items} />
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
                "Why it ended",
                "",
              ]}
              empty="No release yet: the first build that succeeds makes one."
              rows={items.map((release) => ({
                key: release.id,
                cells: [
                  <span key="number" className="strong">
                    v{release.number}
                  </span>,
                  <State key="state" of={release.state} />,
                  trafficText(release),
                  <Link
                    key="cause"
                    to="/projects/$project/apps/$app/builds/$build"
                    params={{ ...ref, build: release.buildId }}
                  >
                    {release.cause}
                  </Link>,
                  <Commit key="commit" of={release} />,
                  <Name key="by" of={release.createdBy?.name ?? release.createdBy?.type ?? ""} />,
                  <Time key="promoted" at={release.promotedAt} />,
                  <span key="end" className="note">
                    <Name of={release.endReason ?? ""} />
                  </span>,
                  release.isStartable &&
                  release.state !== "live" &&
                  release.state !== "rolling_out" &&
                  mayChange ? (
                    <RollBack key="back" to={release.number} />
                  ) : null,
                ],
              }))}
            />
            <CompareReleases releases={items} />
          </>
        )}
      </Answer>
    </>
  );
}

/**
 * The share that it is to get; while another release still serves for it, also the share that it
 * gets now.
 */
function trafficText({ trafficPercent, currentPercent }: Served): string {
  if (currentPercent === null || currentPercent === trafficPercent) return `${trafficPercent} %`;
  return `${currentPercent} % now, to be ${trafficPercent} %`;
}

/** How the calls are divided now, while several releases serve. */
function Traffic({ of }: { readonly of: readonly Served[] }): ReactNode {
  const serving = of
    .map(({ number, trafficPercent, currentPercent }) => ({
      number,
      percent: currentPercent ?? trafficPercent,
    }))
    .filter(({ percent }) => percent > 0);
  if (serving.length < 2) return null;
  return (
    <Progress.Root size="xl" className="traffic" role="group" aria-label="Shares of the calls">
      {serving.map(({ number, percent }, at) => (
        <Progress.Section
          key={number}
          value={percent}
          color={at === 0 ? "indigo" : "gray.7"}
          aria-label={`v${number}`}
        >
          <Progress.Label>
            v{number}: {percent} %
          </Progress.Label>
        </Progress.Section>
      ))}
    </Progress.Root>
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
  if (data === undefined || data === null) return null;
  if (data.state !== "running" && data.state !== "paused") return <Ended of={data} />;
  const steps =
    data.state === "running"
      ? (["pause", "finish", "cancel"] as const)
      : (["resume", "finish", "cancel"] as const);
  return (
    <section aria-label="Roll-out">
      <h2>
        Roll-out of v{data.release} <State of={data.state} />
      </h2>
      <Progress value={data.currentShare} aria-label={`${data.currentShare} % of the calls`} />
      <Facts
        isWide
        of={[
          ["Share", `${data.currentShare} % of ${data.share} %`],
          ["Errors (5xx)", `${data.calls.release.failures} of ${data.calls.release.calls} calls`],
          [
            `Errors (5xx) of v${data.fromRelease}`,
            `${data.calls.fromRelease.failures} of ${data.calls.fromRelease.calls} calls`,
          ],
          ["Began", <Time key="began" at={data.startedAt} />],
          ["Takes", durationText(data.durationSeconds * 1000)],
          [
            "Next step",
            data.nextStepAt === null ? (
              "when it is resumed"
            ) : (
              <Time key="next" at={data.nextStepAt} />
            ),
          ],
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

type EndedRollOut = {
  readonly release: number;
  readonly reason: string | null;
  readonly endedAt: string | null;
};

/** Said only of one that was rolled back, because that needs somebody. */
function Ended({ of: { release, reason, endedAt } }: { readonly of: EndedRollOut }): ReactNode {
  if (reason === null) return null;
  return (
    <p className="muted">
      The roll-out of v{release} ended <Time at={endedAt} />: <Name of={reason} />
    </p>
  );
}

const stepTexts = {
  pause: "Pause",
  resume: "Resume",
  finish: "Give it all calls now",
  cancel: "Roll it back",
} as const;
