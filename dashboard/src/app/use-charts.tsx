// What an app's replicas have used, how many there were and how many calls arrived, over the last hour, day or week. In a file of
// its own, because the charts are large.
import type { ReactNode } from "react";
import { LineChart } from "@mantine/charts";
import "@mantine/charts/styles.css";
import { useQuery } from "@tanstack/react-query";
import { api, ask } from "#api.ts";
import { Answer, sizeText } from "#parts/show.tsx";
import { pathOf, slowRefreshMs, type AppRef } from "#queries.ts";

/** How far back. */
export type Range = "hour" | "day" | "week";

const hourMs = 3_600_000;
const lengthsMs = { hour: hourMs, day: 24 * hourMs, week: 7 * 24 * hourMs } as const;
const colors = ["indigo.6", "gray.6", "teal.7", "orange.7", "grape.6"];

const metricsOf = (ref: AppRef, range: Range, signal: AbortSignal) =>
  ask(
    api.GET("/v2/projects/{project_id}/apps/{app_id}/resource-metrics", {
      params: { path: pathOf(ref), query: { start: new Date(Date.now() - lengthsMs[range]).toISOString() } },
      signal,
    }),
  );

type Metrics = Awaited<ReturnType<typeof metricsOf>>;

const kinds: readonly (readonly [keyof Metrics, string, (value: number) => string])[] = [
  ["requests", "Calls", String],
  ["containers", "Replicas", String],
  ["cpu", "Cores, by replica", (value) => value.toFixed(3)],
  ["memory", "Memory, by replica", sizeText],
  ["gpu", "GPUs, by replica", (value) => `${Math.round(value)} %`],
];

/** The charts that have points. */
export function UseCharts({ app, range }: { readonly app: AppRef; readonly range: Range }): ReactNode {
  const metrics = useQuery({
    queryKey: ["metrics", app, range],
    queryFn: ({ signal }) => metricsOf(app, range, signal),
    refetchInterval: slowRefreshMs * 2,
  });
  return (
    <Answer of={metrics}>
      {(all) => {
        const shown = kinds.filter(([kind]) => all[kind].series.some(({ data }) => data.some((one) => one !== null)));
        if (shown.length === 0) {
          return <div className="empty">Nothing was measured in the last {range}. It is measured once a minute.</div>;
        }
        return (
          <div className="charts">
            {shown.map(([kind, title, format]) => (
              <Chart key={kind} title={title} chart={all[kind]} format={format} range={range} />
            ))}
          </div>
        );
      }}
    </Answer>
  );
}

type ChartProps = {
  readonly title: string;
  readonly chart: Metrics[keyof Metrics];
  readonly format: (value: number) => string;
  readonly range: Range;
};

function Chart({ title, chart: { timestamps, series }, format, range }: ChartProps): ReactNode {
  const near: Intl.DateTimeFormatOptions = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
  const time = new Intl.DateTimeFormat(undefined, range === "week" ? { ...near, weekday: "short" } : near);
  const data = timestamps.map((at, index) => ({
    at: time.format(new Date(at)),
    ...Object.fromEntries(series.map(({ name, data: points }) => [name, numberOf(points[index])])),
  }));
  return (
    <section>
      <h2>{title}</h2>
      <LineChart
        h={150}
        data={data}
        dataKey="at"
        series={series.map(({ name }, at) => ({ name, color: colors[at % colors.length] ?? "indigo.6" }))}
        valueFormatter={format}
        // A point without neighbours would be no line.
        dotProps={{ r: 1.5, strokeWidth: 1 }}
        activeDotProps={{ r: 3, strokeWidth: 1 }}
        strokeWidth={1.5}
        gridAxis="x"
        tickLine="none"
        curveType="linear"
        yAxisProps={{ width: 72, allowDecimals: format !== String }}
        connectNulls={false}
      />
    </section>
  );
}

/** Null: nothing was measured then, which leaves a gap. */
function numberOf(point: string | null | undefined): number | null {
  return typeof point === "string" ? Number(point) : null;
}
