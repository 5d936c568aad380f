// The replicas that run now and what they use, why others have ended, and charts of what there was
// before.
import type { ReactNode } from "react";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { List } from "#parts/list.tsx";
import { Name } from "#parts/name.tsx";
import { durationText, sizeText } from "#parts/quantities.ts";
import { Answer, Short, State, Time, useTitle } from "#parts/show.tsx";
import { endedReplicasQuery, releasesQuery, replicasQuery, type AppRef } from "#queries.ts";
import { useApp } from "./app-frame.tsx";
import { Charts } from "./chart-range.tsx";

type Use = {
  readonly cpuCores: number | null;
  readonly memoryBytes: number;
  readonly networkReceivedBytes: number | null;
  readonly networkSentBytes: number | null;
  readonly gpuUtilization: number | null;
  readonly gpuMemoryBytes: number | null;
};

const useHeads = ["CPU", "Memory", "Received", "Sent"];
const gpuHeads = ["GPU", "GPU memory"];

/** The page. */
export function ReplicasPage(): ReactNode {
  return (
    <>
      <Replicas />
      <Ended />
      <Charts of="replicas" ranges={["hour", "day", "week"]} />
    </>
  );
}

/** By build, the releases of it; several have the same files. */
function useReleaseNames(ref: AppRef): ReadonlyMap<string, string> {
  const releases = useQuery(releasesQuery(ref)).data?.items ?? [];
  return new Map(
    [...Map.groupBy(releases, ({ buildId }) => buildId)].map(([build, all]) => [
      build,
      all.map(({ number }) => `v${number}`).join(", "),
    ]),
  );
}

function Replicas(): ReactNode {
  const ref = useApp();
  const replicas = useQuery(replicasQuery(ref));
  const releaseOf = useReleaseNames(ref);
  useTitle("Replicas", ref.app);
  return (
    <Answer of={replicas}>
      {(all) => {
        const hasGpus = all.some(({ usage }) => (usage?.gpuMemoryBytes ?? null) !== null);
        const heads = hasGpus ? [...useHeads, ...gpuHeads] : useHeads;
        return (
          <List
            label="Replicas"
            columns={[
              "Replica",
              "State",
              "Release",
              "Pool",
              "Created",
              { head: "Runs for", isNumber: true },
              ...heads.map((head) => ({ head, isNumber: true })),
              "",
            ]}
            empty="No replicas are running. The next call starts one."
            rows={all.map((one) => ({
              key: one.containerId,
              cells: [
                <Short key="id" id={one.containerId} />,
                <State key="state" of={one.containerState} />,
                releaseOf.get(one.buildId) ?? "",
                [one.hardwareProvider, one.region].filter((part) => part !== null).join("/"),
                <Time key="created" at={one.timestamp} />,
                durationText(one.containerRunningTimeMs),
                ...(one.usage === null ? heads.map(() => "") : useOf(one.usage, hasGpus)),
                <Link
                  key="log"
                  to="/projects/$project/apps/$app/logs"
                  params={ref}
                  search={{ replica: one.containerId }}
                >
                  Log
                </Link>,
              ],
            }))}
          />
        );
      }}
    </Answer>
  );
}

function useOf(use: Use, hasGpus: boolean): string[] {
  const cells = [
    use.cpuCores === null ? "" : `${use.cpuCores.toFixed(2)} cores`,
    ...[use.memoryBytes, use.networkReceivedBytes, use.networkSentBytes].map(sizeText),
  ];
  if (!hasGpus) return cells;
  return [
    ...cells,
    use.gpuUtilization === null ? "" : `${Math.round(use.gpuUtilization * 100)} %`,
    sizeText(use.gpuMemoryBytes),
  ];
}

/** Why replicas ended that run no more; nothing where none has. */
function Ended(): ReactNode {
  const ref = useApp();
  const { data = [] } = useQuery(endedReplicasQuery(ref));
  const releaseOf = useReleaseNames(ref);
  if (data.length === 0) return null;
  return (
    <section>
      <h2>Ended</h2>
      <List
        label="Ended replicas"
        columns={[
          "Replica",
          "Started for",
          "Release",
          "Ended",
          { head: "Ran for", isNumber: true },
          "Why it ended",
          "",
        ]}
        rows={data.map((one) => ({
          key: one.containerId,
          cells: [
            <Short key="id" id={one.containerId} />,
            one.startedFor === "trial" ? "a build's trial" : "calls",
            releaseOf.get(one.buildId) ?? "",
            <Time key="ended" at={one.endedAt} />,
            one.startedAt === null
              ? "–"
              : durationText(Date.parse(one.endedAt) - Date.parse(one.startedAt)),
            one.reason === null ? (
              ""
            ) : (
              <span key="why" className="note">
                <Name of={one.reason} />
              </span>
            ),
            <Link
              key="log"
              to="/projects/$project/apps/$app/logs"
              params={ref}
              search={{ replica: one.containerId }}
            >
              Log
            </Link>,
          ],
        }))}
      />
    </section>
  );
}
