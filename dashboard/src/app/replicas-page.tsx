// The replicas that run now and what they use, and charts of what there was before.
import type { ReactNode } from "react";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { List } from "#parts/list.tsx";
import { Answer, durationText, Short, sizeText, State, Time, useTitle } from "#parts/show.tsx";
import { releasesQuery, replicasQuery } from "#queries.ts";
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
      <Charts of="replicas" ranges={["hour", "day", "week"]} />
    </>
  );
}

function Replicas(): ReactNode {
  const ref = useApp();
  const replicas = useQuery(replicasQuery(ref));
  const releases = useQuery(releasesQuery(ref)).data?.items ?? [];
  // Several releases can be of one build: they have the same files.
  const releaseOf = new Map(
    [...Map.groupBy(releases, ({ buildId }) => buildId)].map(([build, all]) => [
      build,
      all.map(({ number }) => `v${number}`).join(", "),
    ]),
  );
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
