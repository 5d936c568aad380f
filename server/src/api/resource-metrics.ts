// Charts of an app: turns the points of its history into series, which have a value for every step.
import type { z } from "zod";
import type { resourceMetrics } from "@slipway/contract/metrics-routes.ts";
import { quantileMs } from "#lib/histogram.ts";
import type { ReplicaId } from "#lib/ids.ts";
import type { UseChart, UseQuery } from "#scheduler/use-history.ts";
import type { UsePoint } from "#scheduler/use-history-store.ts";
import { appOf, projectOf, readTime, type Handlers } from "./call.ts";
import type { HandlerParts } from "./parts.ts";

type Metrics = z.infer<typeof resourceMetrics>;
type Series = Metrics["cpu"]["series"][number];

/**
 * The maximum number of replicas in a chart, which shows those that ran longest. An app whose
 * replicas come and go may have had thousands within a month.
 */
const seriesMax = 50;

/** The percentiles that the chart of latencies shows. */
const percentiles = [50, 95, 99];

/** Route handlers for charts of an app. */
export function resourceMetricsHandlers({ apps, useHistory }: HandlerParts) {
  return {
    async getResourceMetrics(call) {
      const appId = appOf(call);
      await apps.require(projectOf(call), appId);
      // The contract has validated the types and choices of the values.
      const { start, end, containerId, resolution } = call.query;
      const chart = await useHistory.read(appId, {
        from: typeof start === "string" ? readTime("start", start).getTime() : null,
        to: typeof end === "string" ? readTime("end", end).getTime() : null,
        replicaId: containerId as ReplicaId | null,
        resolution: resolution as UseQuery["resolution"],
      });
      // A chart of one replica leaves out the others.
      return showChart(chart, { withOthers: containerId === null });
    },
  } satisfies Handlers;
}

function showChart(chart: UseChart, { withOthers }: { readonly withOthers: boolean }): Metrics {
  const count = Math.max(0, Math.ceil((chart.toMs - chart.fromMs) / chart.stepMs));
  const times = Array.from({ length: count }, (_, index) => chart.fromMs + index * chart.stepMs);
  const timestamps = times.map((at) => new Date(at).toISOString());
  const seriesOf = (
    name: string,
    points: readonly UsePoint[],
    show: (point: UsePoint) => string | null,
  ): Series => {
    const byTime = new Map(points.map((point) => [point.at, show(point)]));
    return { name, data: times.map((at) => byTime.get(at) ?? null) };
  };
  // Points without a replica describe the whole app.
  const app = chart.points.filter(({ replicaId }) => replicaId === "");
  const pointsByReplica = Map.groupBy(
    chart.points.filter(({ replicaId }) => replicaId !== ""),
    ({ replicaId }) => replicaId,
  );
  const longestReplicas = Array.from(pointsByReplica)
    .toSorted(([, first], [, second]) => samplesOf(second) - samplesOf(first))
    .slice(0, seriesMax);
  // The points of the app contain the use of its replicas that have no points of their own.
  const others = withOthers ? app.filter(({ memoryBytes }) => memoryBytes > 0) : [];
  const chartOfReplicas = (show: (point: UsePoint) => string | null): Metrics["cpu"] => {
    const series = longestReplicas.map(([id, points]) => seriesOf(id, points, show));
    if (others.length > 0) series.push(seriesOf("others", others, show));
    const filled = series.filter(({ data }) => data.some((point) => point !== null));
    return { timestamps, series: filled };
  };
  return {
    cpu: chartOfReplicas(({ cores }) => text(cores, 4)),
    memory: chartOfReplicas(({ memoryBytes }) => text(memoryBytes, 0)),
    gpu: chartOfReplicas(({ gpu }) => (gpu === null ? null : text(gpu * 100, 2))),
    containers: {
      timestamps,
      series: [
        seriesOf("running", app, ({ running }) => text(running, 2)),
        seriesOf("ready", app, ({ ready }) => text(ready, 2)),
      ],
    },
    requests: {
      timestamps,
      series: [seriesOf("requests", app, ({ requests }) => text(requests, 0))],
    },
    failures: {
      timestamps,
      series: [seriesOf("failures", app, ({ failures }) => text(failures, 0))],
    },
    latency: {
      timestamps,
      series: percentiles.map((percent) =>
        seriesOf(`p${percent}`, app, (point) => latency(point, percent)),
      ),
    },
    starts: {
      timestamps,
      series: [
        { name: "starts", data: times.map((at) => chart.starts.get(at)?.toString() ?? null) },
      ],
    },
  };
}

/** The number of samples in the points, which grows with the time that the replica ran. */
function samplesOf(points: readonly UsePoint[]): number {
  return points.reduce((total, { samples }) => total + samples, 0);
}

/** The latency at a percentile, in milliseconds; null: there were no calls. */
function latency({ durations }: UsePoint, percent: number): string | null {
  const ms = quantileMs(durations ?? [], percent / 100);
  return ms === null ? null : text(ms, 2);
}

/** The number as a text, with at most this many digits after the point. */
function text(value: number, digits: number): string {
  return String(Number(value.toFixed(digits)));
}
