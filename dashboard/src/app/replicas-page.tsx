// The replicas that run now and what they use, and charts of what there was before.
import { lazy, Suspense, type ReactNode } from "react";
import { NativeSelect } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { List } from "#parts/list.tsx";
import { Answer, Short, sizeText, State, Time, useTitle, Waiting } from "#parts/show.tsx";
import { replicasQuery } from "#queries.ts";
import { useApp } from "./app-frame.tsx";

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

const UseCharts = lazy(async () => ({ default: (await import("./use-charts.tsx")).UseCharts }));
const ranges = { hour: "the last hour", day: "the last day", week: "the last week" } as const;

/** The page. */
export function ReplicasPage(): ReactNode {
  return (
    <>
      <Replicas />
      <History />
    </>
  );
}

function History(): ReactNode {
  const ref = useApp();
  const { range = "" } = useSearch({ strict: false });
  const navigate = useNavigate();
  const chosen = range === "day" || range === "week" ? range : "hour";
  return (
    <>
      <div className="filters">
        <NativeSelect
          label="Charts of"
          value={chosen}
          data={Object.entries(ranges).map(([value, label]) => ({ value, label }))}
          onChange={(event) => void navigate({ to: ".", search: { range: event.currentTarget.value } })}
        />
      </div>
      <Suspense fallback={<Waiting />}>
        <UseCharts app={ref} range={chosen} />
      </Suspense>
    </>
  );
}

function Replicas(): ReactNode {
  const ref = useApp();
  const replicas = useQuery(replicasQuery(ref));
  useTitle("Replicas", ref.app);
  return (
    <Answer of={replicas}>
      {(all) => {
        const hasGpus = all.some(({ usage }) => (usage?.gpuMemoryBytes ?? null) !== null);
        const heads = hasGpus ? [...useHeads, ...gpuHeads] : useHeads;
        return (
          <List
            label="Replicas"
            columns={["Replica", "State", "Created", ...heads.map((head) => ({ head, isNumber: true })), ""]}
            empty="No replicas are running. The next call starts one."
            rows={all.map((one) => ({
              key: one.containerId,
              cells: [
                <Short key="id" id={one.containerId} />,
                <State key="state" of={one.containerState} />,
                <Time key="created" at={one.timestamp} />,
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
