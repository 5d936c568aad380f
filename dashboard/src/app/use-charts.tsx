// What an app's replicas have used, how many there were, and how calls went, over the last hour,
// day or week. In a file of its own, because the charts are large.
import type { ReactNode } from "react";
import { LineChart } from "@mantine/charts";
import "@mantine/charts/styles.css";
import { useQuery } from "@tanstack/react-query";
import { durationText, sizeText } from "#parts/quantities.ts";
import { Answer } from "#parts/show.tsx";
import type { AppRef } from "#queries.ts";
import { metricsQuery, numberOf, type Metrics, type Range } from "./metrics-query.ts";

const colors = ["indigo.6", "gray.6", "teal.7", "orange.7", "grape.6"];

/** Up to this number, points are hardly a line. */
const sparseMax = 5;

type Kinds = readonly (readonly [keyof Metrics, string, (value: number) => string])[];

const kinds = {
  calls: [
    ["requests", "Calls", String],
    ["failures", "Errors (5xx): status 500 or above, or cut off", String],
    ["latency", "Latency, with waiting", durationText],
    ["containers", "Replicas", String],
    ["starts", "Cold starts: replicas that started", String],
  ],
  replicas: [
    ["containers", "Replicas", String],
    ["starts", "Replicas that started", String],
    ["cpu", "Cores, by replica", (value) => value.toFixed(3)],
    ["memory", "Memory, by replica", sizeText],
    ["gpu", "GPUs, by replica", (value) => `${Math.round(value)} %`],
  ],
} as const satisfies Record<string, Kinds>;

type ChartsProps = {
  readonly app: AppRef;
  readonly range: Range;
  /** Which of them. */
  readonly of: keyof typeof kinds;
};

/** The charts that have points. */
export function UseCharts({ app, range, of }: ChartsProps): ReactNode {
  const metrics = useQuery(metricsQuery(app, range));
  return (
    <Answer of={metrics}>
      {(all) => {
        const wanted: Kinds = kinds[of];
        const shown = wanted.filter(([kind]) =>
          all[kind].series.some(({ data }) => data.some((one) => one !== null)),
        );
        if (shown.length === 0) {
          return (
            <div className="empty">
              Nothing was measured in the last {range}. It is measured once a minute.
            </div>
          );
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
  const isByReplica = title.endsWith("by replica");
  const near: Intl.DateTimeFormatOptions = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
  const time = new Intl.DateTimeFormat(
    undefined,
    range === "week" ? { ...near, weekday: "short" } : near,
  );
  const data = timestamps.map((at, index) => ({
    at: time.format(new Date(at)),
    ...Object.fromEntries(series.map(({ name, data: points }) => [name, numberOf(points[index])])),
  }));
  const isSparse = series.every(
    ({ data: points }) => points.filter((point) => point !== null).length <= sparseMax,
  );
  return (
    <section>
      <div className="legend">
        <h2>{title}</h2>
        {/* The lines of replicas have long names, which are said on hover. */}
        {isByReplica || series.length < 2
          ? null
          : series.map(({ name }, at) => (
              <span key={name} data-line={at}>
                {name}
              </span>
            ))}
      </div>
      <LineChart
        h={150}
        data={data}
        dataKey="at"
        series={series.map(({ name }, at) => ({
          name,
          color: colors[at % colors.length] ?? "indigo.6",
        }))}
        valueFormatter={format}
        // A point without neighbours would be no line; few of them are to be seen, too.
        dotProps={{ r: isSparse ? 3 : 1.5, strokeWidth: 1 }}
        activeDotProps={{ r: 3, strokeWidth: 1 }}
        strokeWidth={1.5}
        gridAxis="x"
        tickLine="none"
        curveType="linear"
        // No label is left out between others, so that they stay even.
        xAxisProps={{ interval: "equidistantPreserveStart" }}
        yAxisProps={{ width: 72, allowDecimals: format !== String, tickCount: 3, interval: 0 }}
        connectNulls={false}
      />
    </section>
  );
}
